package raw

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/session"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// truth is the true cause and loss, measured without ingero.
type truth struct {
	About string   // description of the fault
	Rules []string // any of them is the cause; empty: no chain may be reported
	// Own means that the job itself is the cause. Culprits are the processes that are the cause.
	// Without either there is no culprit.
	Own      bool     `json:",omitempty"`
	Culprits []uint32 `json:",omitempty"`
	// The job's loss, by its own clock.
	LostMin, LostMax time.Duration
	// From and To are the begin and end of the fault.
	From, To time.Time
}

// reported is the content of a scenario's file.
type reported struct {
	Truth truth
	Ticks []said
}

// said is the output of a tick.
type said struct {
	Seq     uint64
	Time    time.Time
	Window  time.Duration
	Records uint64
	Final   bool
	// The counts since the previous tick, and a digest of their content.
	Calls, Waits, Ended, Procs, Ranges, Stacks int
	Digest                                     string
	Ops                                        []op
	Breakdowns                                 []breakdown
	Chains                                     []tick.Chain
	Tables                                     string // digest of threads, sums of the host, processes, drops
	Follows                                    string // digest of data derived from the calls: states, launches, collectives
}

// op is an operation of a process.
type op struct {
	Op       string
	PID      uint32
	Sum      tick.Counts
	P50, P99 int64
	Rest     string // digest of the tick's changes, and of the kernel's histogram
}

// breakdown is how a process spent its time.
type breakdown struct {
	PID    uint32
	Steps  int
	Digest string // digest of all fields
}

// watch is a sink that keeps the output.
type watch struct {
	ticks []said
	now   said
	hash  hash.Hash
}

func newWatch() *watch { return &watch{hash: sha256.New()} }

func digest(v any) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%+v", v))
	return hex.EncodeToString(sum[:8])
}

func (w *watch) Batch(b *tick.Batch) error {
	w.now.Calls += len(b.Calls)
	w.now.Waits += len(b.Waits)
	w.now.Ended += len(b.Ended)
	w.now.Procs += len(b.Procs)
	w.now.Ranges += len(b.Ranges)
	w.now.Stacks += len(b.Stacks)
	write(w.hash, b.Calls)
	write(w.hash, b.Waits)
	write(w.hash, b.Ended)
	write(w.hash, b.Procs)
	write(w.hash, b.Ranges)
	write(w.hash, b.Stacks)
	return nil
}

// write writes all fields that are not zero, so that a field newer than the tapes changes no
// digest.
func write[T any](to io.Writer, list []T) {
	for i := range list {
		v := reflect.ValueOf(&list[i]).Elem()
		for n := range v.NumField() {
			if f := v.Field(n); !f.IsZero() {
				fmt.Fprintf(to, "%s:%+v ", v.Type().Field(n).Name, f)
			}
		}
		fmt.Fprintln(to)
	}
	fmt.Fprintln(to)
}

func (w *watch) Tick(t *tick.Tick) error {
	s := w.now
	s.Seq, s.Time, s.Window, s.Records, s.Final = t.Seq, t.Time.UTC(), t.Window, t.Records, t.Final
	s.Digest = hex.EncodeToString(w.hash.Sum(nil)[:8])
	for i := range t.Ops {
		o := &t.Ops[i]
		s.Ops = append(s.Ops, op{o.Op.String(), o.PID, o.Sum, o.Dur.Quantile(0.5), o.Dur.Quantile(0.99),
			digest([]any{o.Last, *o.Hist, o.DurLast.Count(), o.DurLast.Quantile(0.5), o.Thinned})})
	}
	for i := range t.Breakdowns {
		text, err := json.Marshal(&t.Breakdowns[i])
		if err != nil {
			return err
		}
		s.Breakdowns = append(s.Breakdowns, breakdown{t.Breakdowns[i].PID, t.Breakdowns[i].Steps, digest(string(text))})
	}
	text, err := json.Marshal(t.Chains) // the session may change the chains later
	if err == nil {
		err = json.Unmarshal(text, &s.Chains)
	}
	for i := range s.Chains {
		inUTC(&s.Chains[i])
	}
	tables, jerr := json.Marshal([]any{utc(t.Processes), utc(t.Others), t.Drops, t.Libraries})
	s.Tables = digest(fmt.Sprintf("%+v %+v %s", t.Threads, t.HostSums, tables))
	follows, ferr := json.Marshal([]any{t.States, t.Launches, t.RollCalls, t.Lates, t.Xids})
	s.Follows = digest(string(follows))
	w.ticks = append(w.ticks, s)
	w.now, w.hash = said{}, sha256.New()
	return errors.Join(err, jerr, ferr)
}

// utc returns processes with their times in UTC.
func utc(list []tick.Process) []tick.Process {
	list = slices.Clone(list)
	for i := range list {
		for _, at := range []*time.Time{&list[i].Started, &list[i].Ended, &list[i].Mapped, &list[i].Attached} {
			*at = time.Unix(0, at.UnixNano()).UTC()
		}
	}
	return list
}

func inUTC(c *tick.Chain) {
	c.From, c.To = c.From.UTC(), c.To.UTC()
	for i := range c.Timeline {
		c.Timeline[i].Time = c.Timeline[i].Time.UTC()
	}
}

func (w *watch) Close() error { return nil }

// play plays a tape and returns the output.
func play(t testing.TB, b []byte) []said {
	t.Helper()
	p, err := session.Play(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	w := newWatch()
	if err := session.Run(context.Background(), session.Config{Source: p, Sinks: []tick.Sink{w}}); err != nil {
		t.Fatal(err)
	}
	return w.ticks
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func readReported(t testing.TB, name string) (x reported) {
	t.Helper()
	if err := json.Unmarshal(read(t, name+".json"), &x); err != nil {
		t.Fatal(err)
	}
	return x
}

func writeReported(t testing.TB, name string, x *reported) {
	t.Helper()
	text := &bytes.Buffer{}
	line := func(before string, v any) {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString(before)
		text.Write(b)
	}
	line(`{"Truth":`, &x.Truth)
	before := ",\n\"Ticks\":[\n"
	for i := range x.Ticks { // one line per tick
		line(before, &x.Ticks[i])
		before = ",\n"
	}
	text.WriteString("\n]}\n")
	if err := os.WriteFile(filepath.Join("testdata", name+".json"), text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// normal returns the output after a round trip through JSON.
func normal(t testing.TB, ticks []said) (out []said) {
	t.Helper()
	text, err := json.Marshal(ticks)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAPlaySaysWhatTheLiveRunSaid(t *testing.T) {
	for _, name := range tapes(t) {
		t.Run(name, func(t *testing.T) {
			want, got := readReported(t, name), normal(t, play(t, read(t, name+".tape")))
			if testkit.Updating() {
				want.Ticks = got
				writeReported(t, name, &want)
			}
			if diff := cmp.Diff(want.Ticks, got); diff != "" {
				t.Errorf("the play differs from the live run (-live +play; after an intended change: go test -update):\n%s", diff)
			}
			for _, wrong := range judge(&want.Truth, got) {
				t.Error(wrong)
			}
		})
	}
}

func TestTwoPlaysAreTheSame(t *testing.T) {
	for _, name := range tapes(t) {
		b := read(t, name+".tape")
		if diff := cmp.Diff(play(t, b), play(t, b)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// judge compares the output with the truth, and returns the errors.
func judge(x *truth, ticks []said) (wrong []string) {
	if len(ticks) == 0 || !ticks[len(ticks)-1].Final {
		return []string{"there is no last tick"}
	}
	for i := range ticks {
		for j := range ticks[i].Chains {
			if c := &ticks[i].Chains[j]; !slices.Contains(x.Rules, c.Rule) {
				wrong = append(wrong, fmt.Sprintf("tick %d has a chain %s, which is not the truth", ticks[i].Seq, c.Rule))
			}
		}
	}
	if len(x.Rules) == 0 {
		return wrong
	}
	last := ticks[len(ticks)-1].Chains
	var least, most time.Duration
	for i := range last {
		c := &last[i]
		least, most = least+c.LostMin, most+c.LostMax
		if len(c.Culprits) == 0 {
			wrong = append(wrong, "the chain names nobody and nothing")
			continue
		}
		by := &c.Culprits[0]
		if x.Own && !by.Own || len(x.Culprits) > 0 && !slices.Contains(x.Culprits, by.Thread.PID) {
			wrong = append(wrong, fmt.Sprintf("the chain %s names %s, process %d", c.Rule, by.Thread.Name, by.Thread.PID))
		}
		if c.To.Before(x.From) || c.From.After(x.To.Add(2*time.Second)) {
			wrong = append(wrong, fmt.Sprintf("the chain is from %v to %v, the fault was from %v to %v", c.From, c.To, x.From, x.To))
		}
	}
	if len(last) == 0 {
		wrong = append(wrong, "no cause is named")
	} else if least > x.LostMax || most < x.LostMin {
		wrong = append(wrong, fmt.Sprintf("%v to %v are said to be lost, truly %v to %v were", least, most, x.LostMin, x.LostMax))
	}
	return wrong
}

// A false chain, a wrong culprit and a wrong loss are errors.
func TestJudge(t *testing.T) {
	x := truth{Rules: []string{"cpu-taken"}, Culprits: []uint32{7}, LostMin: 1, LostMax: 2, From: time.Unix(10, 0), To: time.Unix(12, 0)}
	right := tick.Chain{Rule: "cpu-taken", LostMin: 1, LostMax: 3, From: time.Unix(10, 0), To: time.Unix(12, 0), Culprits: []tick.Culprit{{Thread: events.Thread{PID: 7}}}}
	change := func(f func(c *tick.Chain)) []tick.Chain {
		c := right
		f(&c)
		return []tick.Chain{c}
	}
	if wrong := judge(&x, []said{{Final: true, Chains: []tick.Chain{right}}}); len(wrong) != 0 {
		t.Errorf("what is right: %v", wrong)
	}
	for name, chains := range map[string][]tick.Chain{
		"silence": nil,
		"rule":    change(func(c *tick.Chain) { c.Rule = "disk-wait" }),
		"culprit": change(func(c *tick.Chain) { c.Culprits = []tick.Culprit{{Thread: events.Thread{PID: 8}}} }),
		"nobody":  change(func(c *tick.Chain) { c.Culprits = nil }),
		"loss":    change(func(c *tick.Chain) { c.LostMin, c.LostMax = 3, 4 }),
		"early":   change(func(c *tick.Chain) { c.From, c.To = time.Unix(1, 0), time.Unix(2, 0) }),
	} {
		if wrong := judge(&x, []said{{Final: true, Chains: chains}}); len(wrong) == 0 {
			t.Errorf("a wrong %s passes", name)
		}
	}
	if wrong := judge(&truth{}, []said{{Chains: []tick.Chain{right}}, {Final: true}}); len(wrong) == 0 {
		t.Error("a chain of a healthy job passes")
	}
}
