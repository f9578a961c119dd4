package export_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	godiff "github.com/google/go-cmp/cmp"

	"ingero/internal/export"
	"ingero/internal/query"
	"ingero/internal/store"
	"ingero/internal/store/maintain"
	"ingero/internal/store/segment"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// line is one event of a timeline in any format.
type line struct {
	Track string // "rank 0 train 7 on gpu-7/thread 8"
	Kind  string // "slice", "instant", "count"
	At    int64  // ns since the session's start
	For   int64  // ns, of a slice
	Depth int    // number of enclosing slices
	Name  string
	Cat   string
	Value float64
	Args  map[string]string
	Out   []uint64
	In    []uint64
}

// job records one thread: two launches on a stream, each with the driver's call inside, a gap in
// which another program had the CPU, and a synchronize.
func job(t *testing.T, node string, procs []tick.Process, chains bool) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "job.db")
	now := began
	db, err := store.Open(store.Options{Path: path, Now: func() time.Time { return now },
		Session: segment.Session{ID: "s-" + node, Node: node, Started: began}})
	if err != nil {
		t.Fatal(err)
	}
	b := &tick.Batch{}
	at := func(us int64) int64 { return began.UnixNano() + us*1000 }
	for _, p := range procs {
		launch := events.Call{Op: testkit.Op("cudaLaunchKernel"), PID: p.PID, TID: p.PID + 1, Weight: 1, Device: 1,
			Args: [4]uint64{0x7777, 0xabc, events.PackDim3(16, 2, 1), events.PackDim3(256, 1, 1)}}
		inner := events.Call{Op: testkit.Op("cuLaunchKernel"), Parent: launch.Op, PID: p.PID, TID: p.PID + 1, Weight: 1, Flags: events.CallNested}
		first, second, in := launch, launch, inner
		first.Start, first.Duration, first.OnCPU = at(100), 50_000, 50_000
		in.Start, in.Duration, in.OnCPU = at(100), 40_000, 40_000 // begins with its outer call
		second.Start, second.Duration, second.OnCPU, second.Gap, second.GapRunnable = at(1150), 50_000, 50_000, 1_000_000, 600_000
		sync := events.Call{Op: testkit.Op("cudaStreamSynchronize"), PID: p.PID, TID: p.PID + 1, Weight: 1, Args: [4]uint64{0xabc},
			Start: at(1200), Duration: 800_000, Blocked: 800_000, Flags: events.CallFailed, Result: 700}
		b.Calls = append(b.Calls, in, first, second, sync)
		b.Waits = append(b.Waits,
			events.Wait{Start: at(300), Duration: 600_000, Taken: 500_000, PID: p.PID, TID: p.PID + 1, State: events.WaitRunnable, Who: events.Thread{PID: 99, TID: 99, Name: events.NameOf("stress")}},
			events.Wait{Start: at(300), Duration: 600_000, Taken: 100_000, PID: p.PID, TID: p.PID + 1, State: events.WaitRunnable, Flags: events.WaitPrevious, Who: events.Thread{PID: 98, TID: 98, Name: events.NameOf("cc1")}},
			events.Wait{Start: at(1250), Duration: 700_000, PID: p.PID, TID: p.PID + 1, Op: sync.Op, State: events.WaitBlocked, Reason: events.ReasonGPU, Flags: events.WaitByIRQ})
	}
	used, busy := int64(3<<30), 0.25
	x := &tick.Tick{Started: began, Time: began.Add(time.Second), Seq: 1, Final: true, Processes: procs,
		GPUs: []tick.GPU{{Time: began.Add(time.Second), Index: 3, Bus: "0000:75:00.0", MemUsed: &used, Busy: &busy}},
		Xids: []tick.Xid{{Time: at(5000), Code: 79, Bus: "0000:75:00", Msg: "GPU has fallen off the bus", Burst: 1, At: 1, Root: 79}}}
	for _, p := range procs {
		x.States = append(x.States, tick.State{PID: p.PID, Memory: tick.Memory{Used: true, GPU: tick.Held{Count: 1, Bytes: 4096}}})
		if chains {
			x.Chains = append(x.Chains, tick.Chain{ID: "cpu-taken-7", Rule: "cpu-taken", Severity: tick.High, PID: p.PID, From: time.Unix(0, at(1150)), To: time.Unix(0, at(2000)), Lost: 600 * time.Microsecond,
				Steps: 1, Slow: 1, Confidence: 0.9, Baseline: "none", Culprits: []tick.Culprit{{Thread: events.Thread{PID: 99, TID: 99, Name: events.NameOf("stress")}}}})
		}
	}
	now = began.Add(time.Second)
	if err := db.Batch(b); err != nil {
		t.Fatal(err)
	}
	if err := db.Tick(x); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

var trainer = []tick.Process{{PID: 7, Comm: "train", Started: began.Add(-time.Minute), Where: tick.Where{Rank: tick.Numbered(0)}}}

// timelines are the readers of both formats.
var timelines = map[string]func(*testing.T, *query.Reader, query.Filter) ([]line, *export.TimelineResult){
	"perfetto": func(t *testing.T, r *query.Reader, f query.Filter) ([]line, *export.TimelineResult) {
		var b bytes.Buffer
		res, err := export.Perfetto(t.Context(), &b, r, f, nil)
		if err != nil {
			t.Fatal(err)
		}
		return readPerfetto(t, b.Bytes()), res
	},
	"chrome-json": func(t *testing.T, r *query.Reader, f query.Filter) ([]line, *export.TimelineResult) {
		var b bytes.Buffer
		res, err := export.Chrome(t.Context(), &b, r, f, nil)
		if err != nil {
			t.Fatal(err)
		}
		return readChrome(t, b.Bytes()), res
	},
}

// A timeline has nested calls, gaps, waits with their culprits, arrows from launches to the
// synchronize, counters, causes and faults, and is the same in both formats.
func TestTimeline(t *testing.T) {
	thread := "rank 0 train 7 on gpu-7/thread 8"
	launched := func(us int64, depth int) line {
		return line{Track: thread, Kind: "slice", At: us * 1000, For: 50_000, Depth: depth, Name: "cudaLaunchKernel", Cat: "cudart", Out: []uint64{1},
			Args: map[string]string{"duration_ns": "50000", "oncpu_ns": "50000", "runnable_ns": "0", "throttled_ns": "0", "blocked_ns": "0",
				"device": "0", "func": "0x7777", "grid": "16x2x1", "block": "256x1x1", "stream": "0xabc"}}
	}
	want := []line{
		{Track: "gpu-7/faults of GPUs", Kind: "instant", At: 5_000_000, Name: "Xid 79", Cat: "xid",
			Args: map[string]string{"bus": "0000:75:00", "message": "GPU has fallen off the bus", "pid": "0", "burst": "1"}},
		{Track: "rank 0 train 7 on gpu-7/causes of lost time", Kind: "instant", At: 1_150_000, Name: "HIGH cpu-taken", Cat: "chain,chain.high",
			Args: map[string]string{"id": "cpu-taken-7", "severity": "HIGH", "lost_ns": "600000", "slow_steps": "1", "confidence_percent": "90",
				"culprit": "stress", "over_ns": "850000", "baseline": "none"}},
		launched(100, 0),
		{Track: thread, Kind: "slice", At: 100_000, For: 40_000, Depth: 1, Name: "cuLaunchKernel", Cat: "driver"},
		{Track: thread, Kind: "slice", At: 150_000, For: 1_000_000, Name: "gap", Cat: "gap",
			Args: map[string]string{"oncpu_ns": "0", "runnable_ns": "600000", "throttled_ns": "0", "blocked_ns": "0"}},
		{Track: thread, Kind: "slice", At: 300_000, For: 600_000, Depth: 1, Name: "runnable", Cat: "ledger,runnable",
			Args: map[string]string{"cpu_had": "stress 99 for 500 us, cc1 98 for 100 us"}},
		launched(1150, 0),
		{Track: thread, Kind: "slice", At: 1_200_000, For: 800_000, Name: "cudaStreamSynchronize", Cat: "cudart,failed", In: []uint64{1},
			Args: map[string]string{"duration_ns": "800000", "oncpu_ns": "0", "runnable_ns": "0", "throttled_ns": "0", "blocked_ns": "800000",
				"error": events.ErrorName(testkit.Op("cudaStreamSynchronize"), 700), "stream": "0xabc"}},
		{Track: thread, Kind: "slice", At: 1_250_000, For: 700_000, Depth: 1, Name: "blocked: gpu-driver", Cat: "ledger,blocked",
			Args: map[string]string{"woken_by": "an interrupt or a timer"}},
	}
	counters := map[string]float64{"gpu-7/GPU 3 memory in use": 3 << 30, "gpu-7/GPU 3 busy": 25, "rank 0 train 7 on gpu-7/GPU memory": 4096}
	r := open(t, job(t, "gpu-7", trainer, true))
	for name, read := range timelines {
		t.Run(name, func(t *testing.T) {
			all, res := read(t, r, query.Filter{Session: query.AllSessions})
			if res.Calls != 4 || res.Chains != 1 || res.Sessions != 1 {
				t.Errorf("%d calls, %d chains, %d sessions", res.Calls, res.Chains, res.Sessions)
			}
			var got []line
			levels := map[string]float64{}
			for _, l := range all {
				if l.Kind == "count" {
					levels[l.Track+"/"+l.Name] = l.Value
				} else {
					if l.Name == "cuLaunchKernel" {
						l.Args = nil
					}
					got = append(got, l)
				}
			}
			if d := godiff.Diff(want, got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
			for what, v := range counters {
				if got, ok := levels[what]; !ok || got != v {
					t.Errorf("%s is %v, want %v (of %v)", what, got, v, levels)
				}
			}
		})
	}
}

// Unrealistically overlapping calls of every kind still nest in both formats, and none is missing.
func TestTimelineNests(t *testing.T) {
	r := open(t, record(t, 300))
	f := query.Filter{Session: query.AllSessions}
	var shown [2][]line
	i := 0
	for name, read := range timelines {
		lines, res := read(t, r, f)
		calls := 0
		for _, l := range lines {
			if _, known := events.OpByName(l.Name); known || strings.HasPrefix(l.Name, "op(") {
				calls++
			}
		}
		if calls != 600 || res.Calls != 600 {
			t.Errorf("%s: %d calls are shown, it says %d, want 600", name, calls, res.Calls)
		}
		for j := range lines {
			if lines[j].Kind == "instant" { // JSON has arrows between slices only
				lines[j].Out, lines[j].In = nil, nil
			}
		}
		shown[i] = slices.DeleteFunc(lines, func(l line) bool { return l.Kind == "count" })
		i++
	}
	if d := godiff.Diff(shown[0], shown[1]); d != "" {
		t.Errorf("the formats differ:\n%.3000s", d)
	}
}

// Processes with one pid on two machines stay separate, and unselected ones are absent.
func TestTimelineOfMany(t *testing.T) {
	first := open(t, job(t, "gpu-7", append(trainer[:1:1], tick.Process{PID: 20, Comm: "other"}), false))
	second := open(t, job(t, "gpu-8", trainer, false))
	path := filepath.Join(t.TempDir(), "both.db")
	if _, err := maintain.Merge(t.Context(), path, nil, []maintain.Source{first.Source(), second.Source()}); err != nil {
		t.Fatal(err)
	}
	r := open(t, path)
	for name, read := range timelines {
		lines, _ := read(t, r, query.Filter{Session: query.AllSessions, PIDs: []uint32{7}})
		count := map[string]int{}
		for _, l := range lines {
			if l.Kind == "slice" {
				count[l.Track]++
			}
		}
		if d := godiff.Diff(map[string]int{"rank 0 train 7 on gpu-7/thread 8": 7, "rank 0 train 7 on gpu-8/thread 8": 7}, count); d != "" {
			t.Errorf("%s: -want +got:\n%s", name, d)
		}
	}
}

// A failing write is an error, and so is a cancellation.
func TestTimelineCannotBeWritten(t *testing.T) {
	r := open(t, record(t, 300))
	f := query.Filter{Session: query.AllSessions}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, write := range map[string]func(context.Context, io.Writer, *query.Reader, query.Filter, export.Progress) (*export.TimelineResult, error){
		"perfetto": export.Perfetto, "chrome-json": export.Chrome} {
		if _, err := write(t.Context(), &broken{70_000}, r, f, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
		if _, err := write(ended, io.Discard, r, f, nil); err == nil {
			t.Errorf("%s: no error after the end", name)
		}
	}
}

// ordered sorts lines.
func ordered(all []line) []line {
	slices.SortStableFunc(all, func(a, b line) int {
		return cmp.Or(cmp.Compare(a.Track, b.Track), cmp.Compare(a.At, b.At), cmp.Compare(a.Depth, b.Depth), cmp.Compare(b.For, a.For), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// chromeEvent is an event of the Trace Event Format.
type chromeEvent struct {
	Ph, Name, Cat, S, Bp string
	CName                string `json:"cname"`
	PID, TID             int64
	TS, Dur              float64
	ID                   uint64
	Args                 map[string]any
}

func (e *chromeEvent) at() int64 { return int64(math.Round(e.TS * 1000)) }

// chromePlace is the end of an arrow.
type chromePlace struct{ pid, tid, at int64 }

// chromeReader follows a trace as viewers do: complete events of one thread nest by their times.
type chromeReader struct {
	t     *testing.T
	names map[[2]int64]string // of processes, with thread 0, and threads
	last  map[chromePlace]int // the last written slice
	open  map[[2]int64][]line
	out   []line
}

func readChrome(t *testing.T, b []byte) []line {
	t.Helper()
	var doc struct{ TraceEvents []chromeEvent }
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	r := &chromeReader{t: t, names: map[[2]int64]string{}, last: map[chromePlace]int{}, open: map[[2]int64][]line{}}
	for i := range doc.TraceEvents {
		if e := &doc.TraceEvents[i]; e.Ph == "M" && strings.HasSuffix(e.Name, "_name") {
			r.names[[2]int64{e.PID, e.TID}] = e.Args["name"].(string)
		}
	}
	for i := range doc.TraceEvents {
		r.event(&doc.TraceEvents[i])
	}
	return ordered(r.out)
}

func (r *chromeReader) event(e *chromeEvent) {
	l := line{Track: r.names[[2]int64{e.PID, 0}], At: e.at(), Name: e.Name, Cat: e.Cat, For: int64(math.Round(e.Dur * 1000)), Args: e.args()}
	thread := [2]int64{e.PID, e.TID}
	if e.TID != 0 {
		l.Track += "/" + r.names[thread]
	}
	switch e.Ph {
	case "M":
		return
	case "C":
		l.Kind, l.Value, l.Args = "count", e.Args["value"].(float64), nil
	case "s", "t":
		s := &r.out[r.last[chromePlace{e.PID, e.TID, l.At}]]
		s.Out = append(s.Out, e.ID)
		return
	case "f":
		s := &r.out[r.last[chromePlace{e.PID, e.TID, l.At}]]
		s.In = append(s.In, e.ID)
		return
	case "i":
		l.Kind = "instant"
		if strings.HasPrefix(e.Cat, "chain") {
			l.Track += "/causes of lost time"
			if e.CName != "terrible" || e.S != "p" {
				r.t.Errorf("a grave chain has colour %q and scope %q", e.CName, e.S)
			}
		} else if e.Cat == "xid" {
			l.Track += "/faults of GPUs"
		}
	default:
		l.Kind = "slice"
		r.slice(thread, &l)
		r.last[chromePlace{e.PID, e.TID, l.At}] = len(r.out)
	}
	r.out = append(r.out, l)
}

// slice finds a slice's enclosing ones.
func (r *chromeReader) slice(thread [2]int64, l *line) {
	stack := r.open[thread]
	for len(stack) > 0 && stack[len(stack)-1].At+stack[len(stack)-1].For <= l.At {
		stack = stack[:len(stack)-1]
	}
	if n := len(stack); n > 0 && stack[n-1].At+stack[n-1].For < l.At+l.For {
		r.t.Fatalf("%s at %d is longer than what is around it", l.Name, l.At)
	}
	l.Depth = len(stack)
	r.open[thread] = append(stack, *l)
}

func (e *chromeEvent) args() map[string]string {
	if e.Args == nil {
		return nil
	}
	out := map[string]string{}
	for k, v := range e.Args {
		if f, ok := v.(float64); ok {
			v = fmt.Sprintf("%.0f", f)
		}
		out[k] = fmt.Sprint(v)
	}
	return out
}
