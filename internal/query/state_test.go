package query

import (
	"context"
	"slices"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"

	"ingero/internal/stats"
	"ingero/internal/tick"
)

// stateOf returns a process's state with one item of each kind.
func stateOf(now time.Time, seq uint64) tick.State {
	at := now.UnixNano()
	return tick.State{PID: 4821,
		Memory: tick.Memory{Inexact: tick.InexactAttachedLate | tick.InexactLost, Used: true, GPU: tick.Held{Count: 3, Bytes: 1000 * seq, Peak: 5000}, Host: tick.Held{Count: 1, Bytes: 64, Peak: 64},
			Allocs: 9, Frees: 5, DoubleFrees: 1, OOMs: 2,
			LastOOM: tick.OOM{Time: at, Op: opMalloc, Size: 1 << 30, Device: 1, Live: 1000, Peak: 5000, Holes: 0.25},
			Growth:  tick.Growth{PerMinute: 3, Low: 1, High: 4, Over: 60e9, Leak: true}},
		Held:    []tick.Kind{{Kind: tick.MemoryDevice, Device: 2, Held: tick.Held{Count: 3, Bytes: 1000 * seq, Peak: 5000}}},
		Devices: []tick.Device{{Device: 1, UUID: "00010203-0405-0607-0809-0a0b0c0d0e0f"}},
		Streams: tick.List[tick.Stream]{First: []tick.Stream{{Number: 1, Handle: 0x50, Device: 1, Launches: 7 * seq, Outstanding: 2, Last: at}}, All: 1},
		Graphs: tick.List[tick.Graph]{First: []tick.Graph{{Number: 2, Exec: 0xe1, Graph: 0x91, Device: 1, Captured: at - 100, CaptureNS: 50, Cold: true,
			Instantiated: at - 40, InstantiateNS: 30, Launches: seq, LastLaunch: at}}, All: 1},
		Comms: tick.List[tick.Comm]{First: []tick.Comm{{Number: 3, Handle: 0xc0, ID: 0xabc, Rank: 1, Ranks: 8, Device: 1, Began: at - 900, InitNS: 800, Seq: 40 * seq,
			Last: tick.CommOp{Op: opSync, Time: at, Elements: 10, Type: 7, Bytes: 40}}}, All: 1},
		Copies: []tick.Copy{{Dir: tick.CopyHostToDevice, Host: tick.HostPageable, Count: 4, Bytes: 400, NS: 900}},
		Errors: tick.List[tick.CallError]{First: []tick.CallError{{Op: opMalloc, Code: 2, Count: 2, First: at - 5, Last: at}}, All: 1},
	}
}

// faultOf returns a fault that hit a process, with all fields set.
func faultOf(now time.Time, seq uint64) tick.Xid {
	return tick.Xid{Time: now.UnixNano(), Code: 48, Bus: "0000:75:00", GPUInstance: tick.Numbered(5), ComputeInstance: tick.Numbered(0), NoCode: true, CausedBy: 172, Msg: "pid=7, name=python3, x", Via: tick.ViaTracepoint, Injected: true, SaidPID: 7, SaidName: "python3", PID: 4821, Comm: "python3",
		Burst: seq, At: 1, Root: 48, Last: []tick.XidCall{{TID: 4821, Op: opSync, Before: time.Millisecond, Duration: 7, Result: 719, Open: true}}}
}

// inferenceOf returns a read of an inference server, with all kinds of fields.
func inferenceOf(now time.Time, seq uint64) tick.Inference {
	running := float64(seq)
	return tick.Inference{Time: now, Since: now.Add(-time.Second), PID: 4821, Engine: "vLLM", Model: "m", URL: "http://localhost:8000/metrics", Why: "w", Do: "d", Running: &running,
		FirstToken: &tick.Durations{Count: 4, Sum: 1, Buckets: []tick.DurationBucket{{Over: 0.25, UpTo: 0.5, Count: 3}, {Over: 0.5, Count: 1}}}}
}

// engineStepsOf returns an engine's steps of a tick, with all fields set.
func engineStepsOf(seq uint64) tick.EngineSteps {
	x := tick.EngineSteps{PID: 4821, TID: 4822, Kind: tick.EngineTokens, Graph: 0xe1, Count: 2, Served: 6 * seq, Idle: 1, GPU: 2, CPU: 3, Runnable: 4, Blocked: 5, Unknown: 6}
	x.Dur.Add(int64(10*seq), 2)
	return x
}

// Every view has its columns, and rows of the filter's process only.
func TestStateViews(t *testing.T) {
	r := sqlDB(t)
	ctx := context.Background()
	for _, v := range StateViews {
		t.Run(v.Name, func(t *testing.T) {
			got, err := r.State(ctx, Filter{Session: "s1", PIDs: []uint32{4821}}, v)
			if err != nil {
				t.Fatal(err)
			}
			rows := 1
			if v.Name == "usage" {
				rows = 3 // the last tick's is unchanged
			}
			if at := slices.Index(got.Columns, "first_token_mean"); at >= 0 && (len(got.Rows) == 0 || got.Rows[0][at] != 0.25) {
				t.Errorf("a mean of 1 s in 4 is %v", got.Rows)
			}
			if len(got.Rows) < rows || !slices.Equal(got.Columns, v.names()) {
				t.Errorf("%d rows of %v, want %d of %v", len(got.Rows), got.Columns, rows, v.names())
			}
			none, err := r.State(ctx, Filter{Session: "s1", PIDs: []uint32{4830}}, v)
			if err != nil || (len(none.Rows) != 0) != v.machine || !slices.Equal(none.Columns, got.Columns) {
				t.Errorf("another process has %v (%v), columns %v", none.Rows, err, none.Columns)
			}
			both, err := r.State(ctx, Filter{Session: AllSessions}, v)
			if err != nil || len(both.Rows) != 2*len(got.Rows) {
				t.Errorf("both sessions have %d rows, one has %d (%v)", len(both.Rows), len(got.Rows), err)
			}
			early, err := r.State(ctx, Filter{Session: "s1", To: began.Add(-time.Hour)}, v)
			if err != nil || v.in != "" && len(early.Rows) != 0 {
				t.Errorf("before it began there is %v (%v)", early.Rows, err)
			}
		})
	}
}

// A window's reads of inference servers are read back as recorded: those of the wanted process.
func TestInferenceIsReadBack(t *testing.T) {
	r := sqlDB(t)
	for _, tt := range []struct {
		f    Filter
		want int
	}{
		{Filter{Session: "s1"}, 3}, {Filter{Session: "s1", PIDs: []uint32{4830}}, 0}, // the last two ticks have one time
		{Filter{Session: "s1", PIDs: []uint32{4821}, From: began.Add(2 * time.Second), To: began.Add(3 * time.Second)}, 1},
	} {
		got, err := r.Inference(context.Background(), tt.f)
		if err != nil || len(got) != tt.want {
			t.Fatalf("%d reads, want %d: %v", len(got), tt.want, err)
		}
		for i := range got {
			if d := diff.Diff(inferenceOf(got[i].Time, uint64(*got[i].Running)), got[i]); d != "" {
				t.Errorf("-recorded +read:\n%s", d)
			}
		}
	}
}

// The steps of engines are read back as recorded, summed up over ticks: those of the wanted process in
// the window.
func TestEngineStepsAreReadBack(t *testing.T) {
	r := sqlDB(t)
	var want tick.EngineSteps
	for seq := range uint64(4) {
		x := engineStepsOf(seq + 1)
		want.PID, want.TID, want.Kind, want.Graph = x.PID, x.TID, x.Kind, x.Graph
		want.Add(&x)
	}
	for _, tt := range []struct {
		f    Filter
		want []tick.EngineSteps
	}{
		{Filter{Session: "s1"}, []tick.EngineSteps{want}},
		{Filter{Session: "s1", PIDs: []uint32{4821}, From: began, To: began.Add(time.Minute)}, []tick.EngineSteps{want}},
		{Filter{Session: "s1", PIDs: []uint32{4830}}, nil},
		{Filter{Session: "s1", To: began.Add(-time.Hour)}, nil},
	} {
		got, err := r.EngineSteps(context.Background(), tt.f)
		if err != nil {
			t.Fatal(err)
		}
		if d := diff.Diff(tt.want, got, diff.Comparer(func(a, b stats.Sketch) bool {
			return a.Count() == b.Count() && a.Sum() == b.Sum() && a.Max() == b.Max()
		})); d != "" {
			t.Errorf("%+v: -recorded +read:\n%s", tt.f, d)
		}
	}
}

// A process's memory is read back as recorded.
func TestMemoryIsReadBack(t *testing.T) {
	r := sqlDB(t)
	got, err := r.Memory(context.Background(), Filter{Session: "s1"})
	if err != nil || len(got) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	at := time.Unix(0, got[4821].LastOOM.Time)
	want := stateOf(at, got[4821].GPU.Bytes/1000).Memory
	if got[4821] != want {
		t.Errorf("%+v\nwant %+v", got[4821], want)
	}
}

// A window's faults are read back as recorded: those of the wanted process, and those of no
// process.
func TestXidsAreReadBack(t *testing.T) {
	r := sqlDB(t)
	for _, tt := range []struct {
		f    Filter
		want []uint64 // bursts
	}{
		{Filter{Session: "s1"}, []uint64{1, 2, 3, 4}},
		{Filter{Session: "s1", PIDs: []uint32{4821}}, []uint64{1, 2, 3, 4}},
		{Filter{Session: "s1", PIDs: []uint32{4830}}, nil},
		{Filter{Session: "s1", From: began.Add(2 * time.Second), To: began.Add(3 * time.Second)}, []uint64{2}},
	} {
		got, err := r.Xids(context.Background(), tt.f)
		if err != nil {
			t.Fatal(err)
		}
		var bursts []uint64
		for i := range got {
			bursts = append(bursts, got[i].Burst)
			if d := diff.Diff(faultOf(time.Unix(0, got[i].Time), got[i].Burst), got[i]); d != "" {
				t.Errorf("-recorded +read:\n%s", d)
			}
		}
		if !slices.Equal(bursts, tt.want) {
			t.Errorf("%+v: bursts %v, want %v", tt.f, bursts, tt.want)
		}
	}
}
