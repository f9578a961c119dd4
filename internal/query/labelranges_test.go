package query

import (
	"errors"
	"slices"
	"testing"
)

// rangesOf returns the ranges of labels in a recording.
func rangesOf(t *testing.T, r *Reader, f Filter, labels ...string) Ranges {
	t.Helper()
	s, err := r.Session(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if f.Labels, err = ParseLabels(labels); err != nil {
		t.Fatal(err)
	}
	out, err := r.Ranges(t.Context(), &s, f)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A process is in the ranges while it or one of its threads has all labels: each call with the
// labels lies in them.
func TestRanges(t *testing.T) {
	r, calls := labelledRecording(t)
	at := began.UnixNano()
	end := at + 2e9 + 1
	for _, c := range []struct {
		labels []string
		f      Filter
		want   Ranges
	}{
		{nil, Filter{}, nil},
		{[]string{"epoch=1"}, Filter{}, Ranges{4821: {{at, at + 1e9}}}},
		{[]string{"epoch=2"}, Filter{}, Ranges{4821: {{at + 1e9, end}}}},
		{[]string{"epoch=1"}, Filter{From: unixTime(at + 5e8), To: unixTime(at + 15e8)}, Ranges{4821: {{at + 5e8, at + 1e9}}}},
		{[]string{"epoch=1"}, Filter{PIDs: []uint32{4830}}, Ranges{}},
		{[]string{"tenant=b"}, Filter{}, Ranges{4821: {{at + 100e3, at + 200e3}}}},
		{[]string{"epoch=2", "tenant=b"}, Filter{}, Ranges{}},
		{[]string{"epoch=3"}, Filter{}, Ranges{}},
	} {
		got := rangesOf(t, r, c.f, c.labels...)
		if len(got) != len(c.want) || (got == nil) != (c.want == nil) || !slices.Equal(got[4821], c.want[4821]) {
			t.Errorf("%v: got %v, want %v", c.labels, got, c.want)
		}
		with, _ := ParseLabels(c.labels)
		for i := range calls {
			epoch, tenant := epochAndTenant(&calls[i])
			has := true
			for _, l := range with {
				has = has && (l == Label{"epoch", epoch} || l == Label{"tenant", tenant})
			}
			if has && c.f.From.IsZero() && c.f.PIDs == nil && !got.Contains(calls[i].PID, calls[i].Start, calls[i].Start) {
				t.Fatalf("%v: the call at %d has the labels, and is outside", c.labels, calls[i].Start-at)
			}
		}
	}
	if got := rangesOf(t, r, Filter{}, "tenant=a"); len(got) != 2 || len(got[4821]) != 1 {
		t.Errorf("the process keeps its label while a thread has another: got %v", got)
	}
}

// Contains is true for what lies in one range, Overlaps for what touches one.
func TestRangesContain(t *testing.T) {
	r := Ranges{0: {{70, 80}}, 1: {{10, 20}, {30, 40}}, 2: {{50, 60}}}
	for _, c := range []struct {
		pid              uint32
		from, to         int64
		contains, partly bool
	}{
		{1, 10, 20, true, true}, {1, 10, 10, true, true}, {1, 20, 20, false, false}, {1, 9, 11, false, true}, {1, 19, 30, false, true}, {1, 15, 35, false, true},
		{1, 35, 40, true, true}, {1, 35, 41, false, true}, {1, 50, 55, false, false}, {1, 0, 9, false, false}, {3, 10, 20, false, false},
		{0, 50, 60, true, false}, {0, 12, 13, true, false}, {0, 20, 25, false, false}, {0, 81, 82, false, false},
	} {
		if got := r.Contains(c.pid, c.from, c.to); got != c.contains {
			t.Errorf("%+v: contains %v", c, got)
		}
		if got := r.Overlaps(c.pid, c.from, c.to); got != c.partly {
			t.Errorf("%+v: overlaps %v", c, got)
		}
	}
	if from, to := r.Hull(); from.UnixNano() != 10 || to.UnixNano() != 80 {
		t.Errorf("the hull is %v to %v", from, to)
	}
	if !Ranges(nil).Contains(1, 0, 100) {
		t.Error("without labels something is restricted")
	}
}

// A child has the label of its parent while it lives and has none itself.
func TestRangesOfParents(t *testing.T) {
	l := Labelled{labels: []Label{{"job", "a"}}, values: []labelValues{{
		spans:   map[labelled][]labelSpan{{1, 0}: {{10, 100, "a"}}, {2, 0}: {{40, 60, "b"}}, {2, 7}: {{45, 50, "a"}}},
		parents: map[uint32]uint32{2: 1, 1: 9, 9: 1}}}}
	if got, want := l.ranges(2, []uint32{7, 0}, Range{20, 200}), []Range{{20, 40}, {45, 50}, {60, 100}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// The error for a label that nobody had names those that were recorded.
func TestNotLabelled(t *testing.T) {
	r, _ := labelledRecording(t)
	sessions, err := r.Sessions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for label, want := range map[string]string{
		"epoch=9": "no selected process had the label epoch=9 in that time: recorded labels: epoch=1, epoch=2, tenant=a, tenant=b",
		"epoch=1": "no selected process had the label epoch=1 in that time: choose another time range or other processes: the table labels has the times (docs/reference/schema.md)",
	} {
		with, err := ParseLabels([]string{label})
		if err != nil {
			t.Fatal(err)
		}
		var e *NotLabelledError
		if err := r.NotLabelled(t.Context(), sessions, with); !errors.As(err, &e) || e.Error()+": "+e.Do() != want {
			t.Errorf("%s: %v: %s", label, err, e.Do())
		}
	}
	if e := (&NotLabelledError{}); e.Do() != "no labels were recorded: set them with ingero annotate, during a trace" {
		t.Errorf("got %q", e.Do())
	}
}
