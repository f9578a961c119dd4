package session

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/tick"
)

func TestPipeline(t *testing.T) {
	for _, recorded := range []bool{false, true} {
		if _, err := pipeline(recorded); err != nil {
			t.Errorf("recorded %v: %v", recorded, err)
		}
	}
	a := stage{name: "a", gives: set(partSteps)}
	b := stage{name: "b", takes: set(partSteps), gives: set(partChains)}
	for _, tt := range []struct {
		name   string
		stages []stage
		want   string
	}{
		{"in order", []stage{a, b}, ""},
		{"in the wrong order", []stage{b, a}, `stage "b" takes Steps, which stage "a" gives only then`},
		{"without who gives", []stage{b}, `stage "b" takes Steps, which no stage gives`},
		{"given twice", []stage{a, b, {name: "c", gives: set(partChains)}}, `stages "b" and "c" both give Chains`},
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

// Every field of a batch and of a tick is of a part, and every part has fields.
func TestEveryFieldIsAPart(t *testing.T) {
	own := map[string]bool{"PyCodes": true} // a source keeps these for itself
	for _, of := range []reflect.Type{reflect.TypeFor[tick.Batch](), reflect.TypeFor[polled](), reflect.TypeFor[tick.Tick]()} {
		for i := range of.NumField() {
			if f := of.Field(i); !f.Anonymous && owner(f.Name) == "" && !own[f.Name] {
				t.Errorf("%v.%s is of no part", of, f.Name)
			}
		}
	}
	all := source.gives | fromKernel | fromRecording
	for i := range stages {
		all |= stages[i].gives
	}
	for p := range partsEnd {
		if fields := partFields[p]; len(fields) == 0 || all&(1<<p) == 0 {
			t.Errorf("part %d, %q, is given by nobody, or has no fields", p, p)
		}
	}
}

// owner returns the field of a part that a path is of.
func owner(path string) (of string) {
	for _, fields := range partFields {
		for _, f := range fields {
			if rest, ok := strings.CutPrefix(path, f); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') && len(f) > len(of) {
				of = f
			}
		}
	}
	return of
}

// fieldsOf returns the fields of parts.
func fieldsOf(s parts) map[string]bool {
	out := map[string]bool{}
	for _, p := range s.list() {
		for _, f := range partFields[p] {
			out[f] = true
		}
	}
	return out
}

// open tells whether a value has fields that can be told apart.
func open(v reflect.Type) bool {
	for i := range v.NumField() {
		if !v.Field(i).IsExported() {
			return false
		}
	}
	return true
}

func below(path string, f reflect.StructField) string {
	switch {
	case f.Anonymous && f.Type.Kind() == reflect.Pointer:
		return path
	case path == "":
		return f.Name
	}
	return path + "." + f.Name
}

// only returns a copy of a value that has these fields alone; nil: all.
func only(v reflect.Value, path string, fields map[string]bool) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	kept := fields == nil || path == "" || fields[owner(path)]
	switch {
	case v.Kind() == reflect.Slice && kept && !v.IsNil():
		out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		for i := range v.Len() {
			out.Index(i).Set(only(v.Index(i), path+"[]", fields))
		}
	case v.Kind() == reflect.Pointer && !v.IsNil() && v.Elem().Kind() == reflect.Struct && open(v.Type().Elem()):
		out.Set(reflect.New(v.Type().Elem()))
		out.Elem().Set(only(v.Elem(), path, fields))
	case v.Kind() == reflect.Struct && open(v.Type()):
		for i := range v.NumField() {
			out.Field(i).Set(only(v.Field(i), below(path, v.Type().Field(i)), fields))
		}
	case kept:
		out.Set(v)
	}
	return out
}

// take writes the fields that a stage gives.
func take(to, from reflect.Value, path string, fields map[string]bool) {
	switch {
	case path != "" && fields[owner(path)] && !strings.HasSuffix(path, "[]"):
		to.Set(from)
	case to.Kind() == reflect.Slice:
		for i := range min(to.Len(), from.Len()) {
			take(to.Index(i), from.Index(i), path+"[]", fields)
		}
	case to.Kind() == reflect.Pointer && !to.IsNil() && !from.IsNil() && to.Elem().Kind() == reflect.Struct && open(to.Type().Elem()):
		take(to.Elem(), from.Elem(), path, fields)
	case to.Kind() == reflect.Struct && open(to.Type()):
		for i := range to.NumField() {
			take(to.Field(i), from.Field(i), below(path, to.Type().Field(i)), fields)
		}
	}
}

// changed calls what for each field that differs.
func changed(a, b reflect.Value, path string, what func(field string)) {
	switch {
	case a.Kind() == reflect.Slice && a.Len() == b.Len():
		for i := range a.Len() {
			changed(a.Index(i), b.Index(i), path+"[]", what)
		}
	case a.Kind() == reflect.Pointer && !a.IsNil() && !b.IsNil() && a.Elem().Kind() == reflect.Struct && open(a.Type().Elem()):
		changed(a.Elem(), b.Elem(), path, what)
	case a.Kind() == reflect.Struct && open(a.Type()):
		for i := range a.NumField() {
			changed(a.Field(i), b.Field(i), below(path, a.Type().Field(i)), what)
		}
	case !reflect.DeepEqual(a.Interface(), b.Interface()):
		what(owner(path))
	}
}

// watched returns a stage that fails a test where it changes what it does not give.
func watched(t *testing.T, s stage) stage {
	gives, said := fieldsOf(s.gives), map[string]bool{}
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

// blind returns a stage that sees what it takes, and of which nothing is used but what it gives.
func blind(s stage) stage {
	takes, gives := fieldsOf(s.takes), fieldsOf(s.gives)
	w := s
	if s.batch != nil {
		w.batch = func(r *runner, b *polled) {
			seen := only(reflect.ValueOf(b).Elem(), "", takes)
			s.batch(r, seen.Addr().Interface().(*polled))
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
		w.batch = func(r *runner, b *polled) { around(b, func() { s.batch(r, b) }) }
	}
	if s.tick != nil {
		w.tick = func(r *runner, x *tick.Tick) (err error) {
			around(x, func() { err = s.tick(r, x) })
			return err
		}
	}
	return w
}

// witness is a sink that notes all that a session tells.
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
	w.lines = append(w.lines, strings.ReplaceAll(string(line), ":[]", ":null")) // a list that was used before is empty, not nil
	return err
}

func (*witness) Close() error { return nil }

// richer is a source that tells, beside what a tape has, a little of everything.
type richer struct{ Source }

func (r richer) Capabilities() Capabilities {
	can, n := r.Source.Capabilities(), 0
	can.Faults = func(dst []tick.Xid) []tick.Xid {
		if n++; n%10 == 0 {
			dst = append(dst, tick.Xid{Time: int64(n), Code: 48, Bus: "0000:01:00", SaidPID: 7})
		}
		return dst
	}
	return can
}

func (r richer) Poll(b *tick.Batch) (bool, error) {
	more, err := r.Source.Poll(b)
	for _, list := range []any{&b.Texts, &b.Functions, &b.Stacks} {
		madeUp(reflect.ValueOf(list).Elem())
	}
	return more, err
}

func (r richer) Totals(t *tick.Tick) error {
	err := r.Source.Totals(t)
	for _, list := range []any{&t.Others, &t.GPUs, &t.Libraries, &t.Pods, &t.Reports, &t.Drops, &t.HostSums} {
		madeUp(reflect.ValueOf(list).Elem())
	}
	return err
}

// madeUp appends an element to a list, in which each number is 7 and each text a word.
func madeUp(list reflect.Value) {
	x := reflect.New(list.Type().Elem()).Elem()
	fillIn(x)
	list.Set(reflect.Append(list, x))
}

func fillIn(v reflect.Value) {
	switch {
	case v.CanInt():
		v.SetInt(1)
	case v.CanUint():
		v.SetUint(7)
	case v.CanFloat():
		v.SetFloat(0.5)
	case v.Kind() == reflect.String:
		v.SetString("word")
	case v.Kind() == reflect.Struct && open(v.Type()):
		for i := range v.NumField() {
			fillIn(v.Field(i))
		}
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillIn(v.Index(0))
	}
}

// told plays a tape through stages, and returns what the sinks of the session were told.
func told(t *testing.T, raw []byte, change func(stage) stage) []string {
	t.Helper()
	p, err := Play(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	w := &witness{}
	r, err := begin(Config{Source: richer{p}, Sinks: []tick.Sink{w}, Quiet: Deadband{Percent: 5},
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

// Each stage changes what its row gives and nothing else, and reads what its row takes and
// nothing else: it comes to the same where it sees nothing else.
func TestStagesDoAsTheirRowsSay(t *testing.T) {
	for _, name := range []string{"hog", "gil", "spared-all"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw, err := os.ReadFile(filepath.Join("../../test/tapes/raw/testdata", name+".tape"))
			if err != nil {
				t.Fatal(err)
			}
			want := told(t, raw, func(s stage) stage { return watched(t, s) })
			got := told(t, raw, blind)
			if !slices.Equal(want, got) {
				t.Errorf("stages read what they do not take (-want +got):\n%.4000s", cmp.Diff(want, got))
			}
		})
	}
}
