package query

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"ingero/internal/store/segment"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// labelledRecording returns a recording of two seconds in which process 4821 is in epoch 1 and then
// 2, its thread 4821 has its own tenant in between, and process 4830 has the tenant a.
func labelledRecording(t *testing.T) (*Reader, []events.Call) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.db")
	x := record(t, path, segment.Session{ID: "s1", Node: "n", Mode: "trace"})
	at := began.UnixNano()
	list := []tick.Label{
		{Time: at, PID: 4821, Key: "epoch", Value: "1"}, {Time: at, PID: 4821, Key: "tenant", Value: "a"}, {Time: at, PID: 4830, Key: "tenant", Value: "a"},
		{Time: at + 100e3, PID: 4821, TID: 4821, Key: "tenant", Value: "b"}, {Time: at + 200e3, PID: 4821, TID: 4821, Key: "tenant"},
		{Time: at + 1e9, PID: 4821, Key: "epoch", Value: "2"},
	}
	if err := x.db.Batch(&tick.Batch{Labels: list}); err != nil {
		t.Fatal(err)
	}
	x.second()
	x.second()
	x.close()
	return openReader(t, path), x.calls
}

// epochAndTenant is the truth of labelledRecording.
func epochAndTenant(c *events.Call) (epoch, tenant string) {
	at := c.Start - began.UnixNano()
	if tenant = "a"; c.PID == 4821 {
		if epoch = "1"; at >= 1e9 {
			epoch = "2"
		}
		if at >= 100e3 && at < 200e3 {
			tenant = "b"
		}
	}
	return epoch, tenant
}

// A process has the labels of its parents that it has not itself.
func TestLabelsOfParents(t *testing.T) {
	v := labelValues{spans: map[labelled][]labelSpan{{1, 0}: {{10, 0, "job"}}, {2, 0}: {{20, 30, "own"}}, {3, 33}: {{20, 0, "thread"}}},
		parents: map[uint32]uint32{2: 1, 3: 2, 4: 4}}
	for _, c := range []struct {
		pid, tid uint32
		at       int64
		want     string
	}{{1, 1, 9, ""}, {1, 1, 10, "job"}, {2, 2, 19, "job"}, {2, 2, 20, "own"}, {2, 2, 30, "job"}, {3, 31, 25, "own"}, {3, 33, 25, "thread"}, {3, 33, 15, "job"}, {4, 4, 50, ""}} {
		if got := v.value(c.pid, c.tid, c.at); got != c.want {
			t.Errorf("%+v: got %q", c, got)
		}
	}
}

// A filter of labels selects the calls that began while all of them had their value. The label of a
// thread hides that of its process.
func TestLabelsSelectCalls(t *testing.T) {
	r, calls := labelledRecording(t)
	for _, labels := range [][]string{{"epoch=1"}, {"epoch=2"}, {"tenant=a"}, {"tenant=b"}, {"epoch=1", "tenant=a"}, {"epoch=2", "tenant=b"}, {"tenant=c"}, {"step=1"}} {
		with, err := ParseLabels(labels)
		if err != nil {
			t.Fatal(err)
		}
		var want int
		ops := map[events.Op]uint64{}
		for i := range calls {
			epoch, tenant := epochAndTenant(&calls[i])
			has := true
			for _, l := range with {
				has = has && (l == Label{"epoch", epoch} || l == Label{"tenant", tenant})
			}
			if has {
				want++
				ops[calls[i].Op]++
			}
		}
		got, err := r.Calls(t.Context(), Filter{Labels: with}, 0)
		if err != nil || len(got) != want {
			t.Errorf("%v: %d calls, want %d (%v)", labels, len(got), want, err)
		}
		stats, cover, err := r.OpStats(t.Context(), Filter{Labels: with}, Group{})
		if err != nil || len(stats) > 0 && !cover.Records {
			t.Errorf("%v: %+v, %v", labels, cover, err)
		}
		for _, o := range stats {
			if o.Sum.Calls != ops[o.Op] {
				t.Errorf("%v: %d calls of %v, want %d", labels, o.Sum.Calls, o.Op, ops[o.Op])
			}
			delete(ops, o.Op)
		}
		if len(ops) > 0 {
			t.Errorf("%v: without %v", labels, ops)
		}
	}
}

// Grouped by a label, each call is in the group of its value.
func TestGroupByLabel(t *testing.T) {
	r, calls := labelledRecording(t)
	for i, key := range []string{"epoch", "tenant"} {
		want := map[string]uint64{}
		for j := range calls {
			epoch, tenant := epochAndTenant(&calls[j])
			want[[...]string{epoch, tenant}[i]]++
		}
		stats, _, err := r.OpStats(t.Context(), Filter{}, Group{Label: key})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range stats {
			want[o.Label] -= o.Sum.Calls
		}
		for value, n := range want {
			if n != 0 {
				t.Errorf("%s=%s: %d calls differ", key, value, int64(n))
			}
		}
	}
}

func TestParseLabels(t *testing.T) {
	if got, err := ParseLabels([]string{"request=a=b"}); err != nil || got[0] != (Label{"request", "a=b"}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"", "a", "a=", "=a", "A=b", "a b=c", "1=2"} {
		if got, err := ParseLabels([]string{text}); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// Labels that are joined to one parameter come back, whatever their values are.
func TestJoinLabels(t *testing.T) {
	for text, want := range map[string][]string{
		"tenant=a":          {"tenant=a"},
		"tenant=a,epoch=3":  {"tenant=a", "epoch=3"},
		`tenant=a\,epoch=3`: {"tenant=a,epoch=3"},
		`path=C:\\x`:        {`path=C:\x`},
		`path=a\\,b=\,`:     {`path=a\`, "b=,"},
		"":                  {""},
		",":                 {"", ""},
	} {
		if got := SplitLabels(text); !slices.Equal(got, want) || JoinLabels(want) != text {
			t.Errorf("%s: got %q, want %q, which joins to %s", text, got, want, JoinLabels(want))
		}
	}
	if got := SplitLabels(`path=C:\x\`); !slices.Equal(got, []string{`path=C:\x\`}) {
		t.Errorf("other backslashes: %q", got)
	}
}

// The periods of labels are those that began or ended in the window, of the wanted process.
func TestLabelSpans(t *testing.T) {
	r, _ := labelledRecording(t)
	at := func(d time.Duration) time.Time { return began.Add(d) }
	for name, tt := range map[string]struct {
		f    Filter
		want []string // keys and values
	}{
		"all":                {Filter{Session: "s1"}, []string{"epoch=1", "tenant=a", "tenant=a", "tenant=b", "epoch=2"}},
		"a process":          {Filter{Session: "s1", PIDs: []uint32{4830}}, []string{"tenant=a"}},
		"begins and ends":    {Filter{Session: "s1", From: at(time.Microsecond), To: at(time.Millisecond)}, []string{"tenant=b"}},
		"one ends":           {Filter{Session: "s1", From: at(150 * time.Microsecond), To: at(time.Millisecond)}, []string{"tenant=b"}},
		"one follows":        {Filter{Session: "s1", From: at(time.Second)}, []string{"epoch=1", "epoch=2"}},
		"none in the window": {Filter{Session: "s1", From: at(time.Millisecond), To: at(2 * time.Millisecond)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := r.LabelSpans(t.Context(), tt.f)
			if err != nil {
				t.Fatal(err)
			}
			var texts []string
			for _, l := range got {
				texts = append(texts, l.Key+"="+l.Value)
			}
			if !slices.Equal(texts, tt.want) {
				t.Errorf("got %v, want %v", texts, tt.want)
			}
		})
	}
}
