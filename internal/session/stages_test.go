package session

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"ingero/internal/stats"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

func TestPipeline(t *testing.T) {
	for _, recorded := range []bool{false, true} {
		if _, err := pipeline(recorded); err != nil {
			t.Errorf("recorded %v: %v", recorded, err)
		}
	}
	a := stage{name: "a", writes: set(partSteps)}
	b := stage{name: "b", reads: set(partSteps), writes: set(partChains)}
	for _, tt := range []struct {
		name   string
		stages []stage
		want   string
	}{
		{"in order", []stage{a, b}, ""},
		{"in the wrong order", []stage{b, a}, `stage "b" takes Steps, which stage "a" gives only then`},
		{"without who gives", []stage{b}, `stage "b" takes Steps, which no stage gives`},
		{"given twice", []stage{a, b, {name: "c", writes: set(partChains)}}, `stages "b" and "c" both give Chains`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			if err := check(tt.stages); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// Every field of a batch and of a tick belongs to a part, and every part has fields.
func TestEveryFieldIsAPart(t *testing.T) {
	own := map[string]bool{"PyCodes": true} // for sources only
	for _, of := range []reflect.Type{reflect.TypeFor[tick.Batch](), reflect.TypeFor[pollResult](), reflect.TypeFor[tick.Tick]()} {
		for i := range of.NumField() {
			if f := of.Field(i); !f.Anonymous && owner(f.Name) == "" && !own[f.Name] {
				t.Errorf("%v.%s is of no part", of, f.Name)
			}
		}
	}
	all := source.writes | fromKernel | fromRecording
	for i := range stages {
		all |= stages[i].writes
	}
	for p := range partsEnd {
		if fields := partFields[p]; len(fields) == 0 || all&(1<<p) == 0 {
			t.Errorf("part %d, %q, is given by nobody, or has no fields", p, p)
		}
	}
}

// watched returns a stage that fails a test if it changes a part that it does not give.
func watched(t *testing.T, s stage) stage {
	gives, said := fieldsOf(s.writes), map[string]bool{}
	around := func(x any, do func()) {
		v := reflect.ValueOf(x).Elem()
		before := only(v, "", nil)
		do()
		changed(before, v, "", func(field string) {
			if !gives[field] && !said[field] {
				said[field] = true
				t.Errorf("stage %q changes %s, which it does not give", s.name, field)
			}
		})
	}
	return wrap(s, around)
}

// blind returns a stage that sees only the parts it takes; only the parts it gives are used.
func blind(s stage) stage {
	takes, gives := fieldsOf(s.reads), fieldsOf(s.writes)
	w := s
	if s.batch != nil {
		w.batch = func(r *runner, b *pollResult) {
			seen := only(reflect.ValueOf(b).Elem(), "", takes)
			s.batch(r, seen.Addr().Interface().(*pollResult))
			take(reflect.ValueOf(b).Elem(), seen, "", gives)
		}
	}
	if s.tick != nil {
		w.tick = func(r *runner, x *tick.Tick) error {
			seen := only(reflect.ValueOf(x).Elem(), "", takes)
			err := s.tick(r, seen.Addr().Interface().(*tick.Tick))
			take(reflect.ValueOf(x).Elem(), seen, "", gives)
			return err
		}
	}
	return w
}

func wrap(s stage, around func(x any, do func())) stage {
	w := s
	if s.batch != nil {
		w.batch = func(r *runner, b *pollResult) { around(b, func() { s.batch(r, b) }) }
	}
	if s.tick != nil {
		w.tick = func(r *runner, x *tick.Tick) (err error) {
			around(x, func() { err = s.tick(r, x) })
			return err
		}
	}
	return w
}

// witness is a sink that records all output of a session.
type witness struct{ lines []string }

func (w *witness) Batch(b *tick.Batch) error { return w.note(b) }

func (w *witness) Tick(t *tick.Tick) error {
	for i := range t.Ops {
		o := &t.Ops[i]
		w.lines = append(w.lines, fmt.Sprint(o.Dur.Count(), o.Dur.Max(), o.DurLast.Count(), o.DurLast.Max()))
	}
	return w.note(t)
}

func (w *witness) note(x any) error {
	line, err := json.Marshal(x)
	w.lines = append(w.lines, strings.ReplaceAll(string(line), ":[]", ":null")) // a reused list is empty, not nil
	return err
}

func (*witness) Close() error { return nil }

// invented is a source of data that no tape has: each list of its batches and ticks has elements
// with small random numbers, so that they collide, and with times near the present.
type invented struct {
	*rand.Rand
	at   int64 // Unix ns
	left int   // polls
}

func (*invented) Stop() error  { return nil }
func (*invented) Close() error { return nil }

func (s *invented) Capabilities() Capabilities {
	return Capabilities{AgentPID: 3, StackPolicy: "all", SetSlow: func(events.Op, time.Duration) error { return nil },
		Due: func(t *tick.Tick) bool {
			if s.left%2 == 0 {
				return false
			}
			*t = tick.Tick{Time: time.Unix(0, s.at), Started: time.Unix(0, 0), Seq: uint64(s.at / 1e9), Window: time.Second, Records: uint64(s.at), Final: s.left == 1}
			return true
		},
		Faults: func(dst []tick.Xid) []tick.Xid { s.fill(reflect.ValueOf(&dst).Elem(), ""); return dst }}
}

func (s *invented) Poll(b *tick.Batch) (bool, error) {
	if s.left--; s.left <= 0 {
		return false, io.EOF
	}
	s.at += 5e8
	s.fill(reflect.ValueOf(b).Elem(), "")
	for i := range b.Calls {
		c := &b.Calls[i]
		c.Op = events.Catalog[s.IntN(len(events.Catalog))].Op
	}
	slices.SortFunc(b.Procs, func(x, y tick.ProcEvent) int { return cmp.Compare(x.Time, y.Time) })
	return false, nil
}

func (s *invented) Totals(t *tick.Tick) error {
	for _, p := range (source.writes | fromRecording).list() {
		for _, f := range partFields[p] {
			if v := reflect.ValueOf(t).Elem().FieldByName(f); v.IsValid() && p != partMoment && p != partRecords {
				s.fill(v, f)
			}
		}
	}
	for i := range t.Ops {
		t.Ops[i] = tick.Op{PID: t.Ops[i].PID, Op: events.Catalog[s.IntN(len(events.Catalog))].Op, Sum: t.Ops[i].Sum, Hist: &stats.Hist{}}
	}
	return nil
}

// fill sets a value to a random value of its type.
func (s *invented) fill(v reflect.Value, name string) {
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Unix(0, (s.at-s.Int64N(1e9))*s.Int64N(2))))
	case v.CanInt() && slices.Contains([]string{"Time", "Start", "Since", "Until"}, name):
		v.SetInt(s.at - s.Int64N(1e9))
	case v.CanInt():
		v.SetInt(s.Int64N(1e7) / (1 + 1e7*s.Int64N(2)) % (1 << (v.Type().Bits() - 2)))
	case v.CanUint():
		v.SetUint(s.Uint64N(4))
	case v.CanFloat():
		v.SetFloat(s.Float64())
	case v.Kind() == reflect.Bool:
		v.SetBool(s.IntN(2) == 0)
	case v.Kind() == reflect.String:
		v.SetString([]string{"", "a", "b"}[s.IntN(3)])
	case v.Kind() == reflect.Struct && open(v.Type()):
		for i := range v.NumField() {
			s.fill(v.Field(i), v.Type().Field(i).Name)
		}
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), s.IntN(12), 12))
		fallthrough
	case v.Kind() == reflect.Array:
		for i := range v.Len() {
			s.fill(v.Index(i), "")
		}
	}
}

// reportedBy plays a source through stages, and returns the input of the sinks.
func reportedBy(t *testing.T, from Source, change func(stage) stage) []string {
	t.Helper()
	w := &witness{}
	r, err := begin(Config{Source: from, Clock: &steps{now: time.Unix(0, 0)}, Sinks: []tick.Sink{w}, Quiet: Deadband{Percent: 5},
		Hide: func(_ time.Time, _ bool, chains []tick.Chain) ([]tick.Chain, []tick.Hidden) {
			if len(chains) < 2 {
				return chains, nil
			}
			return chains[:1], []tick.Hidden{{Chain: chains[1], Why: tick.HiddenSeverity}}
		}})
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range r.stages {
		r.stages[i] = change(s)
	}
	if err := r.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w.lines
}

// Each stage changes only the parts that its row gives, and reads only those that it takes: it
// gives the same result when it sees nothing else.
func TestStagesDoAsTheirRowsSay(t *testing.T) {
	tape := func(name string) func(t *testing.T) Source {
		return func(t *testing.T) Source {
			raw, err := os.ReadFile(filepath.Join("../../test/tapes/raw/testdata", name+".tape"))
			if err != nil {
				t.Fatal(err)
			}
			p, err := Play(bytes.NewReader(raw))
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
	}
	for name, from := range map[string]func(*testing.T) Source{
		"a hog": tape("hog"), "Python's lock": tape("gil"), "what is in no tape": func(*testing.T) Source {
			return &invented{rand.New(rand.NewPCG(1, 2)), 1_700_000_000e9, 100}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := reportedBy(t, from(t), func(s stage) stage { return watched(t, s) })
			got := reportedBy(t, from(t), blind)
			if !slices.Equal(want, got) {
				t.Errorf("stages read what they do not take (-want +got):\n%.4000s", gocmp.Diff(want, got))
			}
		})
	}
}
