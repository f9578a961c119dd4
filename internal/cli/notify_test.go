package cli

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ingero/internal/config"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// A webhook receives what trace prints, with a text for people and without secrets, in every
// --cmdline mode.
func TestNotice(t *testing.T) {
	at := time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)
	e := tick.Episode{ID: "c-1/7", Kind: tick.EpisodeBegin, Severity: tick.High, From: at, To: at, Lost: time.Second, Chain: tick.Chain{ID: "c-1", Rule: "cpu-taken", PID: 7, Severity: tick.High,
		Culprits: []tick.Culprit{{Thread: events.Thread{PID: 9, TID: 9, Name: events.NameOf("backup")}, Cmdline: "backup --password hunter2", Lost: time.Second}}}}
	b, err := notice("gpu-7")(&e, &tick.Tick{Time: at, Processes: []tick.Process{{PID: 7, Comm: "train"}}})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Text, Node, Type, Episode, Severity string
		Chain                               struct{ ID, Rule string }
	}
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	if got.Node != "gpu-7" || got.Type != "chain_begin" || got.Episode != "c-1/7" || got.Chain.Rule != "cpu-taken" ||
		!strings.HasPrefix(got.Text, "gpu-7 08:00:00  [HIGH] train") {
		t.Errorf("%+v", got)
	}
	if strings.Contains(string(b), "hunter2") || e.Chain.Culprits[0].Cmdline != "backup --password hunter2" {
		t.Errorf("the secret is sent, or the tick was changed: %s", b)
	}
}

// A trace with a webhook sends signed messages and reports its state; a trace without one opens
// nothing.
func TestNotifyIsWired(t *testing.T) {
	testkit.LeakCheck(t)
	var said, signature atomic.Value
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		said.Store(string(b))
		signature.Store(r.Header.Get("Webhook-Signature"))
	}))
	defer server.Close()
	e := &Env{Getenv: func(name string) string { return map[string]string{"INGERO_NOTIFY_SECRET": "s"}[name] }}
	var lines []string
	say := func(line string) { lines = append(lines, line) }
	none, err := e.exports(t.Context(), &config.Config{}, slog.New(slog.DiscardHandler), say)
	if err != nil || len(none.sinks)+len(none.onClose)+len(none.states)+len(lines) > 0 {
		t.Fatalf("%+v, %v, %q", none, err, lines)
	}
	c := &config.Config{Node: "gpu-7"}
	c.Trace.Notify.URL = server.URL + "/secretpath"
	x, err := e.exports(t.Context(), c, slog.New(slog.DiscardHandler), say)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	at := tick.Tick{Time: now, Started: now, Episodes: []tick.Episode{{ID: "c-1/7", Kind: tick.EpisodeBegin, Severity: tick.High, Chain: tick.Chain{ID: "c-1", Rule: "cpu-taken"}}}}
	for _, s := range x.sinks {
		if err := errors.Join(s.Tick(&at), s.Close()); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, "the messages to be sent", func() bool { return x.state()[0].Sent == 1 })
	if err := x.close(); err != nil {
		t.Error(err)
	}
	if text, _ := said.Load().(string); !strings.Contains(text, `"node":"gpu-7"`) || !strings.HasPrefix(signature.Load().(string), "v1,") {
		t.Errorf("it received %s, signed %v", text, signature.Load())
	}
	if all := strings.Join(lines, "\n"); all != "Sending causes to "+server.URL+" (not encrypted)" || x.state()[0].To != server.URL {
		t.Errorf("%q, %+v", all, x.state())
	}
}

// A secret comes from its file, else from the environment, with surrounding space trimmed.
func TestSecretOf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	for name, c := range map[string]struct {
		file, given, want string
		fails             bool
	}{
		"a file": {"abc\n", "other", "abc", false}, "the environment": {"", " def ", "def", false}, "an empty file": {" \n", "x", "", true},
		"a large file": {strings.Repeat("x", maxSecret+1), "", "", true},
	} {
		from := ""
		if c.file != "" {
			from = path
			if err := os.WriteFile(path, []byte(c.file), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := secretOf(from, c.given)
		if (err != nil) != c.fails || !c.fails && got != c.want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := secretOf(path+"x", ""); err == nil {
		t.Error("no error without the file")
	}
}
