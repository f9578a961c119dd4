package explain

import (
	"encoding/csv"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"ingero/internal/stats"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/internal/wire"
	"ingero/pkg/events"
)

// opRow returns an operation with a number of calls of equal duration.
func opRow(node, comm string, pid uint32, op events.Op, calls int, ns int64) OpRow {
	o := tick.Op{PID: pid, Op: op, Dur: &stats.Sketch{}}
	o.Sum = tick.Counts{Calls: uint64(calls), Done: uint64(calls), Total: uint64(calls) * uint64(ns), OnCPU: uint64(calls) * uint64(ns)}
	o.Dur.Add(ns, uint32(calls))
	return OpRow{Node: node, Comm: comm, Op: o}
}

func opTable() *OpTable {
	failed := opRow("gpu-7", "train\x1b.py", 4821, launch, 10, 5000)
	failed.Op.Sum.Errors = 3
	inner := OpRow{Node: "gpu-7", Comm: "train\x1b.py", Op: tick.Op{PID: 4821, Op: longName, Sum: tick.Counts{Calls: 20, Nested: 20, Unmeasured: 20}}}
	return &OpTable{From: start, To: start.Add(5 * time.Minute), Database: "x.db", Notes: []string{"torn"}, Rows: []OpRow{
		failed,
		opRow("gpu-7", "train\x1b.py", 4821, streamSyn, 1000, 15*ms),
		opRow("gpu-7", "train\x1b.py", 4821, streamSyn, 1000, 25*ms), // of another recording
		inner,
		opRow("gpu-8", "embed", 5032, streamSyn, 1, 3e12),
	}}
}

func TestOperations(t *testing.T) {
	testkit.Golden(t, "operations.txt", Operations(opTable(), Options{}))
	one := opTable()
	one.Rows = one.Rows[:4]
	testkit.Golden(t, "operations-one.txt", Operations(one, Options{}))
	testkit.Golden(t, "operations-none.txt", Operations(&OpTable{From: start, To: start.Add(time.Minute)}, Options{}))
	for line := range strings.Lines(Operations(opTable(), Options{})) {
		if cells(strings.TrimRight(line, "\n")) > 80 {
			t.Errorf("more than 80 columns: %q", line)
		}
	}
}

// JSON and CSV have the figures of the text.
func TestOperationsAgree(t *testing.T) {
	text, err := OperationsJSON(opTable())
	if err != nil {
		t.Fatal(err)
	}
	var j struct {
		Operations []map[string]any
		Notes      []string
	}
	if err := json.Unmarshal(text, &j); err != nil || len(j.Operations) != 4 || !slices.Equal(j.Notes, []string{"torn"}) {
		t.Fatalf("%v: %s", err, text)
	}
	if o := j.Operations[1]; o["node"] != "gpu-7" || o["comm"] != "train?.py" || o["op"] != "cudaStreamSynchronize" || o["calls"] != 2000.0 ||
		o["total_ns"] != 40e9 || o["max_ns"] != 25e6 || o["self_ns"] != nil {
		t.Errorf("operation %v", o)
	}
	rows, err := csv.NewReader(strings.NewReader(string(OperationsCSV(opTable())))).ReadAll()
	if err != nil || len(rows) != 5 {
		t.Fatalf("%v: %q", err, rows)
	}
	of := func(row int, column string) string { return rows[row][slices.Index(rows[0], column)] }
	if of(2, "calls") != "2000" || of(2, "total_ns") != "40000000000" || of(2, "throttled_ns") != "0" || of(2, "comm") != "train?.py" || of(3, "errors") != "3" {
		t.Errorf("CSV: %q", rows)
	}
	if of(4, "calls") != "20" || of(4, "total_ns") != "" || of(4, "throttled_ns") != "" || of(4, "p50_ns") != "" {
		t.Errorf("what is not known is reported: %q", rows[4])
	}
}

func TestCallLists(t *testing.T) {
	at := start.UnixNano()
	l := &CallList{From: start, To: start.Add(time.Minute), Total: 40, Slowest: true, Rows: []CallRow{
		{Node: "gpu-7", Session: "s", Comm: "train\x1b.py", Call: events.Call{Start: at, Duration: 9 * ms, OnCPU: 9 * ms, PID: 7, TID: 8, Op: streamSyn, Weight: 1,
			Flags: events.CallFailed, Result: 700}},
		{Node: "gpu-7", Session: "s", Call: events.Call{Start: at + 5, PID: 7, TID: 7, Op: longName, Parent: launch, Weight: 3,
			Flags: events.CallNested | events.CallUnmeasured}},
		{Node: "gpu-7", Session: "s", Call: events.Call{Start: at + 9, Duration: 4 * ms, Runnable: ms, PID: 7, TID: 7, Op: streamSyn, Weight: 1,
			Flags: events.CallLedgerPartial}},
	}}
	testkit.Golden(t, "calllist.txt", Calls(l, Options{}))
	testkit.Golden(t, "calllist.jsonl", string(CallsJSON(l)))
	testkit.Golden(t, "calllist.csv", string(CallsCSV(l)))
	for line := range strings.Lines(string(CallsJSON(l))) {
		fits[wire.CallLine](t, []byte(line))
	}
	l.Rows[1].Node = "gpu-8"
	for want, x := range map[string]CallList{
		"The 3 slowest of 40 calls · ":  {Total: 40, Slowest: true, Rows: l.Rows},
		"The first 3 calls · ":          {Rows: l.Rows},
		"3 calls · ":                    {Total: 3, Slowest: true, Rows: l.Rows},
		"No such calls were recorded, ": {},
	} {
		x.From, x.To = l.From, l.To
		got := Calls(&x, Options{})
		if !strings.HasPrefix(got, want) || len(x.Rows) > 0 && !strings.Contains(got, "\ngpu-8  ") {
			t.Errorf("the list begins otherwise than %q:\n%s", want, got)
		}
	}
}
