package tapes

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/pkoukk/tiktoken-go"
	loader "github.com/pkoukk/tiktoken-go-loader"

	"ingero/internal/cli"
	"ingero/internal/query"
	"ingero/internal/store"
	"ingero/internal/store/segment"
	"ingero/internal/testkit"
	"ingero/internal/tick"
)

// mostTokens is the maximum length of a diagnosis, in tokens of o200k_base.
const mostTokens = 600

// Diagnosis is the answer of the tool diagnose about a run, as an assistant receives it.
type Diagnosis struct {
	Text   string
	Tokens int
	Facts  map[string]any
	Rows   [][]any // each culprit's name, pid, parent, ..., with the loss last
}

// tokenizer counts tokens as assistants do.
var tokenizer = sync.OnceValues(func() (*tiktoken.Tiktoken, error) {
	tiktoken.SetBpeLoader(loader.NewOfflineLoader())
	return tiktoken.GetEncoding(tiktoken.MODEL_O200K_BASE)
})

// Diagnose asks ingero mcp for a diagnosis of a recording, like its clients.
func Diagnose(t testing.TB, db string) *Diagnosis {
	t.Helper()
	stdin, stdout, write, read := testkit.Pipes(t)
	nowhere, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer nowhere.Close()
	ended := make(chan int, 1)
	go func() {
		ended <- cli.Main(cli.Env{Args: []string{"mcp", "--db", db}, Stdin: stdin, Stdout: stdout, Stderr: nowhere, Getenv: func(string) string { return "" }})
		_ = stdout.Close()
	}()
	c, err := sdk.NewClient(&sdk.Implementation{Name: "lab", Version: "1"}, nil).Connect(t.Context(), &sdk.IOTransport{Reader: read, Writer: write}, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "diagnose", Arguments: map[string]any{}})
	if err != nil || len(res.Content) != 1 || res.IsError {
		t.Fatalf("diagnose: %+v, %v", res, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if code := <-ended; code != 0 {
		t.Errorf("ingero mcp ends with %d", code)
	}
	d := &Diagnosis{Text: res.Content[0].(*sdk.TextContent).Text}
	b, err := json.Marshal(res.StructuredContent)
	if err == nil {
		err = json.Unmarshal(b, d)
	}
	enc, err2 := tokenizer()
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	d.Tokens = len(enc.EncodeOrdinary(d.Text))
	return d
}

// Rediagnose returns the current engine's chains of a recording, and their diagnosis.
func Rediagnose(t testing.TB, db string, until int64) ([]Heard, *Diagnosis) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "anew.db")
	end := func() time.Time { return time.Unix(0, until) }
	p := playTo(t, db, until, nil, func(s *query.Session) tick.Sink {
		rec, err := store.Open(store.Options{Path: path, Now: end, Session: segment.Session{Mode: s.Mode, Target: s.Target, PID: s.PID, Started: s.Started}})
		if err != nil {
			t.Fatal(err)
		}
		return rec
	})
	return p.Heard(), Diagnose(t, path)
}

// ns returns a fact in ns, 0 if it is absent.
func (d *Diagnosis) ns(name string) time.Duration {
	n, _ := d.Facts[name].(float64)
	return time.Duration(n)
}

// other matches a further cause after the most severe: "disk-wait 312ms c-7f3a".
var other = regexp.MustCompile(`([a-z0-9-]+) ([0-9.]+(?:ns|us|ms|s)) c-`)

// others returns the losses of the further causes, by rule.
func (d *Diagnosis) others() (map[string]time.Duration, error) {
	out := map[string]time.Duration{}
	text, _ := d.Facts["others"].(string)
	for _, m := range other.FindAllStringSubmatch(text, -1) {
		lost, err := time.ParseDuration(m[2])
		if err != nil {
			return nil, err
		}
		out[m[1]] += lost
	}
	return out, nil
}

// judgeDiagnosis compares a diagnosis with the same truth, and returns its errors.
func (o *Outcome) judgeDiagnosis(d *Diagnosis) (wrong []string) {
	if d == nil {
		return []string{"there is none"}
	}
	if d.Tokens > mostTokens {
		wrong = append(wrong, fmt.Sprintf("%d tokens", d.Tokens))
	}
	rule, _ := d.Facts["rule"].(string)
	if len(o.Want) == 0 {
		faults := rule == "" && d.Facts["faults"] != nil // GPU faults are reported even without an effect
		if !strings.HasPrefix(d.Text, "ok, nothing is wrong") && !slices.Contains(o.Also, rule) && !faults && !o.reportedStolen(rule) {
			wrong = append(wrong, "it does not say that nothing is wrong")
		}
		return wrong
	}
	main := slices.IndexFunc(o.Want, func(t Truth) bool { return slices.Contains(t.Rules, rule) })
	said := Lost{Min: d.ns("lost_min_ns"), Mid: d.ns("lost_ns"), Max: d.ns("lost_max_ns")}
	if main < 0 {
		if !o.delayed(d) || !slices.Contains(o.Also, rule) {
			return append(wrong, fmt.Sprintf("the cause is %q", rule))
		}
		said = Lost{} // the expected loss is that of the processes that waited for the job
	}
	others, err := d.others()
	if err != nil {
		wrong = append(wrong, err.Error())
	}
	for i := range o.Want {
		reported := func(r string) bool { return others[r] > 0 }
		if i != main && !slices.ContainsFunc(o.Want[i].Rules, reported) {
			wrong = append(wrong, "not reported: "+o.Want[i].Rules[0])
		}
	}
	if main >= 0 && o.Want[main].Named && !d.blames(&o.Want[main]) {
		wrong = append(wrong, "the culprit")
	}
	return append(wrong, o.judgeFacts(d, said, others)...)
}

// judgeFacts judges the facts of a diagnosis. said is the expected part of the loss of its first cause.
func (o *Outcome) judgeFacts(d *Diagnosis, said Lost, others map[string]time.Duration) (wrong []string) {
	for _, name := range []string{"fix", "confidence", "job", "pid", "cause"} {
		if d.Facts[name] == nil {
			wrong = append(wrong, "no "+name)
		}
	}
	if pid, _ := d.Facts["pid"].(float64); !slices.Contains(o.Victims, int(pid)) && len(o.Victims) > 0 {
		wrong = append(wrong, fmt.Sprintf("the job is %v", d.Facts["pid"]))
	}
	if len(d.Rows) == 0 {
		wrong = append(wrong, "no culprits")
	}
	if said, is := o.lostOf(said, others); said.Min > is.Max || said.Max < is.Min {
		wrong = append(wrong, fmt.Sprintf("lost %s to %s of %s ms", millis(said.Min), millis(said.Max), millis(is.Mid)))
	}
	return wrong
}

// delayed reports whether the diagnosed job is a culprit that a victim waited for. The diagnosis may
// then begin with what delayed the culprit.
func (o *Outcome) delayed(d *Diagnosis) bool {
	pid, _ := d.Facts["pid"].(float64)
	return slices.ContainsFunc(o.Want, func(t Truth) bool {
		waits := func(victim int) bool { return !slices.Contains(t.Culprits, victim) }
		return slices.Contains(t.Culprits, int(pid)) && slices.ContainsFunc(o.Victims, waits)
	})
}

// lostOf returns the reported and the true loss of the expected causes, from the reported loss of the
// first cause and those of the others.
func (o *Outcome) lostOf(first Lost, others map[string]time.Duration) (said, is Lost) {
	said = first
	for i := range o.Want {
		t := &o.Want[i]
		for _, rule := range slices.Concat(t.Rules, t.With) {
			n := others[rule]
			said = Lost{said.Min + n*9/10, said.Mid + n, said.Max + n*11/10} // without an interval: within a tenth
		}
		is = Lost{is.Min + t.Lost.Min, is.Mid + t.Lost.Mid, is.Max + t.Lost.Max}
	}
	return said, is
}

// number matches the process number in "cron[711]".
var number = regexp.MustCompile(`\[?(\d+)\]?\)?$`)

// blames reports whether most of the loss blamed on processes is blamed on the true culprits.
func (d *Diagnosis) blames(t *Truth) bool {
	var all, theirs float64
	for _, row := range d.Rows {
		if len(row) < 6 {
			continue
		}
		n, _ := row[5].(float64)
		all += n
		pid, _ := row[1].(float64)
		parent := 0
		if text, _ := row[2].(string); text != "" {
			if m := number.FindStringSubmatch(text); m != nil {
				parent, _ = strconv.Atoi(m[1])
			}
		}
		if slices.Contains(t.Culprits, int(pid)) || slices.Contains(t.Culprits, parent) {
			theirs += n
		}
	}
	return 2*theirs > all
}
