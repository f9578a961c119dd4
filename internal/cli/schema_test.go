package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"golang.org/x/sys/unix"

	"ingero/internal/store"
	"ingero/internal/tick"
	"ingero/internal/wire"
	"ingero/pkg/events"
)

// published is docs/reference/schema.json, as the schema of an object with a member for each document.
// It refuses members that it does not have.
type published struct{ *jsonschema.Resolved }

func readSchema(t *testing.T) published {
	t.Helper()
	text, err := os.ReadFile("../../docs/reference/schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	none := &jsonschema.Schema{Not: &jsonschema.Schema{}}
	s.Properties = map[string]*jsonschema.Schema{}
	for _, d := range s.AnyOf {
		s.Properties[d.Title] = &jsonschema.Schema{Ref: d.Ref}
	}
	for _, d := range s.Defs {
		d.AdditionalProperties = none.CloneSchemas()
	}
	s.AnyOf, s.AdditionalProperties = nil, none
	r, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return published{r}
}

// check returns an error if a document does not have the form in the schema.
func (p published) check(document string, text []byte) error {
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return err
	}
	return p.Validate(map[string]any{document: v})
}

// checkTrace checks the lines of ingero trace --json, by their type. Of lines that differ in digits
// only, as most calls do, it checks one.
func (p published) checkTrace(text string) error {
	var errs []error
	checked := map[string]bool{}
	for line := range strings.Lines(text) {
		form := strings.Map(func(r rune) rune {
			if '0' <= r && r <= '9' {
				return -1
			}
			return r
		}, line)
		if checked[form] {
			continue
		}
		checked[form] = true
		var x struct{ Type string }
		if err := json.Unmarshal([]byte(line), &x); err != nil {
			return err
		}
		if strings.HasPrefix(x.Type, "chain_") {
			x.Type = "chain_begin, chain_update, chain_end, chain_revised"
		}
		if err := p.check("ingero trace --json: "+x.Type, []byte(line)); err != nil {
			errs = append(errs, fmt.Errorf("%w in %.500s", err, line))
		}
	}
	return errors.Join(errs[:min(len(errs), 4)]...)
}

// What commands print with --json fits the published schema.
func TestJSONFitsSchema(t *testing.T) {
	db, damaged, schema := testDB(t), damagedDB(t), readSchema(t)
	for _, tt := range []struct {
		document string
		args     []string
		want     int // exit code; check may also find that tracing works here
	}{
		{"ingero explain --json", []string{"explain", "--db", db}, exitOK},
		{"ingero explain --json", []string{"demo", "incident", "--recorded"}, exitOK},
		{"ingero demo --json: an element, of several scenarios", []string{"demo", "--recorded"}, exitOK},
		{"ingero config show --json: an element", []string{"config", "show"}, exitOK},
		{"ingero query --json", []string{"query", "--db", db, "--per-process"}, exitOK},
		{"ingero query STATEMENT --json", []string{"query", "--db", db, "SELECT op, x'00ff' AS b FROM events LIMIT 3"}, exitOK},
		{"ingero summary --json", []string{"summary", "--db", db}, exitOK},
		{"ingero diff --json", []string{"diff", db, db}, exitOK},
		{"ingero db info --json", []string{"db", "info", "--db", db}, exitOK},
		{"ingero db verify --json", []string{"db", "verify", "--db", db}, exitOK},
		{"ingero db repair --json", []string{"db", "repair", "--db", db}, exitOK},
		{"ingero db verify --json", []string{"db", "verify", "--db", damaged}, exitDamaged},
		{"ingero db repair --json", []string{"db", "repair", "--db", damaged}, exitOK},
		{"ingero query --calls --json: a line", []string{"query", "--db", db, "--calls", "--limit", "1"}, exitOK},
		{"ingero status --json", []string{"status"}, exitFailed}, // no trace runs
		{"ingero check --json", []string{"check"}, exitFailed},   // no trace can run
		{"ingero check --json", []string{"check", "--pid", strconv.Itoa(os.Getpid())}, exitFailed},
	} {
		code, text, stderr := command(t, atTheEnd, nil, append(tt.args, "--json")...)
		if code != tt.want && (tt.args[0] != "check" || code != exitOK) {
			t.Errorf("%v: exit code %d, want %d: %s", tt.args, code, tt.want, stderr)
		}
		parts := []json.RawMessage{json.RawMessage(text)}
		if strings.Contains(tt.document, ": an element") {
			if err := json.Unmarshal([]byte(text), &parts); err != nil || len(parts) < 2 {
				t.Errorf("%v: %d elements, %v", tt.args, len(parts), err)
			}
		}
		for _, part := range parts {
			if err := schema.check(tt.document, part); err != nil {
				t.Errorf("%v: %v in %.500s", tt.args, err, part)
			}
		}
	}
}

// damagedDB returns a database with an unreadable SQLite file, a damaged segment and a file of a
// killed process.
func damagedDB(t *testing.T) string {
	t.Helper()
	db := testDB(t)
	segments, err := filepath.Glob(filepath.Join(store.LogDir(db), "*.iseg"))
	if err != nil || len(segments) != 1 {
		t.Fatalf("segments %q, %v", segments, err)
	}
	text, err := os.ReadFile(segments[0])
	if err != nil {
		t.Fatal(err)
	}
	copy(text[300:], "????")
	left := filepath.Join(store.LogDir(db), ".left.part")
	if err := errors.Join(os.WriteFile(segments[0], text, 0o600), os.WriteFile(left, nil, 0o600), os.WriteFile(db, []byte("text"), 0o600)); err != nil {
		t.Fatal(err)
	}
	return db
}

// What status and stuck print about a trace fits the published schema.
func TestTraceStateFitsSchema(t *testing.T) {
	schema, place, now := readSchema(t), testPlace(t), time.Now()
	l, err := place.Acquire(wire.Holder{Command: "ingero trace", Since: now, DB: "a.db"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Release() }()
	p := &publisher{lock: l, log: slog.New(slog.DiscardHandler), database: func() (int64, error) { return 0, errors.New("no space") },
		exports: func() []wire.Export {
			return []wire.Export{{Name: "webhook", To: "https://hooks.example.com", Lost: map[string]uint64{"refused": 1}, Problem: "refused"}}
		}}
	blocked := tick.ThreadState{State: events.WaitBlocked, Reason: events.ReasonPipe, Syscall: events.SyscallOf(unix.SYS_READ), Arg: 5, Since: now.Add(-time.Second).UnixNano()}
	open := tick.OpenCall{Op: 0x0110, Start: now.Add(-time.Minute).UnixNano()}
	err = p.Tick(&tick.Tick{Time: now, Drops: []tick.Drop{{Reason: "ring-full", Count: 3}},
		Processes: []tick.Process{{PID: 7, Comm: "train", Mapped: now, Attached: now, Counted: true}},
		Threads:   []tick.Thread{{PID: 7, TID: 8, Comm: "worker", Until: now.UnixNano(), Now: blocked, Open: []tick.OpenCall{open, open}}},
		RollCalls: []tick.RollCall{{Ranks: 2, Seq: 1, Op: open.Op, Since: open.Start, Entered: []tick.Rank{{Rank: 0, PID: 7}},
			Missing: []tick.Missing{{Rank: tick.Rank{Rank: 1, PID: 9}, Lives: true, Now: blocked, Open: open}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	state, err := place.State(wire.Holder{PID: os.Getpid(), UID: uint32(os.Geteuid())})
	if err != nil {
		t.Fatal(err)
	}
	list := stuckOf(&state, now, time.Second, nil)
	if len(list.Calls) != 1 || len(list.RollCalls) != 1 {
		t.Fatalf("stuck: %+v", list)
	}
	list.Calls[0].OnCPU = &wire.CPUHolder{PID: 9}
	for document, v := range map[string]any{"ingero status --json": judge(&state, nil, now), "ingero stuck --json": list} {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.check(document, text); err != nil {
			t.Errorf("%s: %v in %s", document, err, text)
		}
	}
}
