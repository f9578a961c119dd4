package query

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/store/segment"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// A launch has the name that its handle had then; other calls have none.
func TestFunctions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	x := record(t, path, segment.Session{ID: "s"})
	at := func(s int) int64 { return began.Add(time.Duration(s) * time.Second).UnixNano() }
	launch := func(s int, pid uint32, handle uint64) events.Call {
		return events.Call{Start: at(s), PID: pid, TID: pid, Op: opLaunch, Duration: 1000, OnCPU: 1000, Weight: 1, Args: [4]uint64{handle}}
	}
	inner := launch(3, 1, 7)
	inner.Op, inner.Parent, inner.Flags = opCuLaunch, opLaunch, events.CallNested|events.CallUnmeasured|events.CallInherited
	malloc := launch(4, 1, 7)
	malloc.Op = opMalloc
	calls := []events.Call{launch(0, 1, 7), launch(2, 1, 7), inner, malloc, launch(4, 1, 8), launch(4, 2, 7), launch(5, 1, 1<<63)}
	functions := []events.Function{
		{PID: 1, Handle: 7, Name: "_Z5firstv"}, {PID: 1, Handle: 7, Time: at(1), Name: "_Z6secondIiEvv"},
		{PID: 1, Handle: 8, Why: events.NoNameUnread}, {PID: 1, Handle: 1 << 63, Name: "plain"},
	}
	now := began.Add(10 * time.Second)
	x.now = now
	if err := x.db.Batch(&tick.Batch{Calls: calls, Functions: functions}); err != nil {
		t.Fatal(err)
	}
	x.close()
	r := openReader(t, path)
	rows := ask(t, r, "SELECT function, symbol FROM events").Rows
	want := [][]any{{"first()", "_Z5firstv"}, {"void second<int>()", "_Z6secondIiEvv"}, {"void second<int>()", "_Z6secondIiEvv"},
		{nil, nil}, {nil, nil}, {nil, nil}, {"plain", "plain"}}
	if d := cmp.Diff(want, rows); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if got := first(t, r, "SELECT demangle(name) FROM names WHERE name LIKE '%second%'"); got[0] != "void second<int>()" {
		t.Errorf("demangle: %v", got)
	}
	stats, _, err := r.FunctionStats(t.Context(), Filter{}, false)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]uint64{}
	for _, s := range stats {
		got[s.Function+s.Why] += s.Sum.Calls
	}
	if d := cmp.Diff(map[string]uint64{"_Z5firstv": 1, "_Z6secondIiEvv": 1, "plain": 1, "its name could not be read": 1, "it was not recorded": 1}, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}
