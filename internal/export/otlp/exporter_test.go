package otlp

import (
	"bytes"
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	metricspb "go.opentelemetry.io/proto/slim/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"

	"ingero/internal/metric"
	"ingero/internal/stats"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// newExporter exports everything to a receiver.
func newExporter(t *testing.T, r *receiver, p Protocol, spans Spans) *Exporter {
	t.Helper()
	o := Options{Spans: spans, Node: "n1", Version: "1.2", Resource: []Attr{{"team", "ml"}}}
	for s := range Signals {
		o.Targets[s] = target(t, r.URL, p, s)
	}
	x, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	return x
}

var began = time.Unix(1_700_000_000, 0)

// tickAt is a tick some seconds after the start.
func tickAt(second int) *tick.Tick {
	return &tick.Tick{Started: began, Time: began.Add(time.Duration(second) * time.Second), Seq: uint64(second), Window: time.Second,
		Processes: []tick.Process{{PID: 4, PPID: 1, Comm: "python3", Exe: "/usr/bin/python3", Started: began,
			Where: tick.Where{Pod: "train-0", Namespace: "ml", Container: "3f2b8c", Rank: tick.Numbered(2), Cmdline: "python3 train.py"}}}}
}

// sent closes an exporter after its last tick, and waits for the receiver.
func sent(t *testing.T, x *Exporter, last *tick.Tick) {
	t.Helper()
	last.Final = true
	if err := x.Tick(last); err != nil {
		t.Fatal(err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	for _, s := range x.State() {
		if s.Problem != "" || len(s.Lost) > 0 {
			t.Errorf("%s: %+v", s.Signal, s)
		}
	}
}

// A call becomes a span with its duration, status, arguments, ledger and Python line; the driver's
// call inside it is its child.
func TestSpans(t *testing.T) {
	for _, p := range []Protocol{HTTPProtobuf, GRPC} {
		t.Run(string(p), func(t *testing.T) {
			testkit.LeakCheck(t)
			r := newReceiver(t, nil)
			x := newExporter(t, r, p, SpansNotable)
			outer, inner := call("cudaMalloc", 100, 900, ""), call("cuMemAlloc", 200, 700, "cudaMalloc")
			for _, c := range []*events.Call{&outer, &inner} {
				c.Flags |= events.CallFailed
				c.Result = 2
				c.Args[0] = 1 << 40
				c.OnCPU, c.Runnable, c.Blocked = c.Duration-30_000, 10_000, 20_000
			}
			outer.Stack, outer.Device, outer.Gap = 77, 1, 5_000
			if err := x.Batch(&tick.Batch{Calls: []events.Call{inner, outer}}); err != nil {
				t.Fatal(err)
			}
			if err := x.Tick(tickAt(1)); err != nil {
				t.Fatal(err)
			}
			if n := r.count(); n != 0 {
				t.Errorf("%d requests before the names of the stack are known", n)
			}
			stack := events.Stack{ID: 77, PID: 4, Frames: []events.Frame{
				{Kind: events.FrameNative, Func: "cudaMalloc", Module: "/usr/lib/libcudart.so.12"},
				{Kind: events.FramePython, Func: "forward", File: "/home/me/train.py", Line: 142}}}
			if err := x.Batch(&tick.Batch{Stacks: []events.Stack{stack}}); err != nil {
				t.Fatal(err)
			}
			sent(t, x, tickAt(2))
			spans, resources := r.spans(t)
			if len(spans) != 2 {
				t.Fatalf("%d spans, want 2", len(spans))
			}
			parent, child := spans[0], spans[1]
			if parent.Name != "cudaMalloc" || child.Name != "cuMemAlloc" || len(parent.ParentSpanId) != 0 ||
				!bytes.Equal(child.ParentSpanId, parent.SpanId) || !bytes.Equal(child.TraceId, parent.TraceId) || len(parent.TraceId) != 16 || len(parent.SpanId) != 8 {
				t.Errorf("parent %v\nchild %v", parent, child)
			}
			if parent.StartTimeUnixNano != 100_000 || parent.EndTimeUnixNano != 1_000_000 {
				t.Errorf("from %d to %d", parent.StartTimeUnixNano, parent.EndTimeUnixNano)
			}
			if parent.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR || parent.Status.Message != "cudaErrorMemoryAllocation" || child.Status.Message != "CUDA_ERROR_OUT_OF_MEMORY" {
				t.Errorf("status %v, %v", parent.Status, child.Status)
			}
			has(t, values(parent.Attributes), map[string]any{"gpu.cuda.source": "cudart", "thread.id": int64(7), "ingero.span.reason": "failed",
				"gpu.cuda.arg.size": int64(1 << 40), "gpu.cuda.result": int64(2), "error.type": "cudaErrorMemoryAllocation", "gpu.cuda.device": int64(0),
				"ingero.on_cpu_ns": int64(870_000), "ingero.runnable_ns": int64(10_000), "ingero.blocked_ns": int64(20_000), "ingero.gap_ns": int64(5_000),
				"code.function.name": "forward", "code.file.path": "/home/me/train.py", "code.line.number": int64(142), "code.stacktrace": nil})
			has(t, resources[0], map[string]any{"service.name": "python3", "process.pid": int64(4), "host.name": "n1", "k8s.pod.name": "train-0",
				"k8s.namespace.name": "ml", "container.id": "3f2b8c", "ingero.rank": int64(2), "process.command_line": "python3 train.py", "team": "ml"})
		})
	}
}

// has checks attributes; nil matches any value.
func has(t *testing.T, got, want map[string]any) {
	t.Helper()
	for key, v := range want {
		g, there := got[key]
		if !there || v != nil && g != v {
			t.Errorf("%s is %v, want %v", key, g, v)
		}
	}
}

// With all, every call is a span. Without a receiver, their number is bounded, and drops are
// counted.
func TestAllSpans(t *testing.T) {
	r := newReceiver(t, nil)
	x := newExporter(t, r, HTTPProtobuf, SpansAll)
	const n = 5000
	for i := range int64(n) {
		c := call("cuLaunchKernel", 10*i, 3, "")
		c.TID += uint32(i % 3)
		if err := x.Batch(&tick.Batch{Calls: []events.Call{c}}); err != nil {
			t.Fatal(err)
		}
	}
	sent(t, x, tickAt(1))
	spans, _ := r.spans(t)
	ids := map[string]bool{}
	for _, s := range spans {
		ids[string(s.SpanId)] = true
	}
	if len(spans) != n || len(ids) != n {
		t.Errorf("%d spans, %d ids, want %d", len(spans), len(ids), n)
	}
}

// An unreachable receiver costs bounded memory, and all undelivered items are counted.
func TestAway(t *testing.T) {
	testkit.LeakCheck(t)
	clock := newFakeClock()
	o := Options{Spans: SpansAll, Clock: clock, QueueBytes: 1 << 20}
	for s := range Signals {
		o.Targets[s] = target(t, "http://127.0.0.1:1", HTTPProtobuf, s)
	}
	x, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	const n, ticks = 3000, 40
	for i := range ticks {
		b := &tick.Batch{}
		for j := range int64(n) {
			b.Calls = append(b.Calls, call("cuLaunchKernel", int64(i)*1e6+j, 1, ""))
		}
		if err := x.Batch(b); err != nil {
			t.Fatal(err)
		}
		if err := x.Tick(tickAt(i)); err != nil {
			t.Fatal(err)
		}
	}
	if q := x.senders[Traces].queue; q.size > 1<<20 || x.waitingSpans > mostHeld {
		t.Errorf("%d bytes and %d spans wait", q.size, x.waitingSpans)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	var all uint64
	for _, s := range x.State() {
		for _, n := range s.Lost {
			all += n
		}
	}
	if all != n*ticks {
		t.Errorf("%d of %d spans are accounted for", all, n*ticks)
	}
}

// A chain is logged when it begins and becomes a span when it is over, with links to the slow calls
// of its process in its time.
func TestChains(t *testing.T) {
	r := newReceiver(t, nil)
	x := newExporter(t, r, HTTPProtobuf, SpansNotable)
	slow := call("cudaStreamSynchronize", 2_000_000, 5_000, "")
	slow.Start += began.UnixNano()
	early, other := slow, slow
	early.Start, other.PID = began.UnixNano(), 5
	e := tick.Episode{Kind: tick.EpisodeBegin, ID: "cpu-taken-4-1", Severity: tick.High, From: began.Add(time.Second), To: began.Add(3 * time.Second), Lost: 70 * time.Millisecond,
		Chain: tick.Chain{ID: "cpu-taken-4", Rule: "cpu-taken", PID: 4, TID: 7, Op: slow.Op, Confidence: 0.9, Steps: 10, Slow: 3, Baseline: "usual" + tick.JudgedWithLess + "not all was seen",
			Culprits: []tick.Culprit{{Thread: events.Thread{PID: 9, TID: 9, Name: events.NameOf("stress-ng")}, Lost: time.Millisecond}},
			Timeline: []tick.Moment{{Time: began.Add(2 * time.Second), Source: "HOST", Text: "stress-ng had CPU 3"}}}}
	one := tickAt(2)
	one.Episodes = []tick.Episode{e}
	if err := x.Batch(&tick.Batch{Calls: []events.Call{early, slow, other}}); err != nil {
		t.Fatal(err)
	}
	if err := x.Tick(one); err != nil {
		t.Fatal(err)
	}
	two := tickAt(4)
	e.Kind, e.Why = tick.EpisodeEnd, tick.ReasonOver
	hidden := e
	hidden.ID, hidden.Hidden = "hidden", true
	two.Episodes = []tick.Episode{e, hidden}
	sent(t, x, two)
	spans, _ := r.spans(t)
	var chain *tracepb.Span
	byID := map[string]*tracepb.Span{}
	for _, s := range spans {
		byID[string(s.TraceId)+string(s.SpanId)] = s
		if s.Name == "chain cpu-taken" {
			chain = s
		}
	}
	if chain == nil || len(spans) != 4 {
		t.Fatalf("spans %v", spans)
	}
	if len(chain.Links) != 1 || len(chain.Events) != 1 || chain.Events[0].Name != "stress-ng had CPU 3" {
		t.Fatalf("links %v, events %v", chain.Links, chain.Events)
	}
	if to := byID[string(chain.Links[0].TraceId)+string(chain.Links[0].SpanId)]; to == nil || to.StartTimeUnixNano != uint64(slow.Start) {
		t.Errorf("the link leads to %v", to)
	}
	has(t, values(chain.Attributes), map[string]any{"ingero.chain.rule": "cpu-taken", "ingero.chain.severity": "HIGH", "ingero.culprit": "stress-ng",
		"ingero.culprit.pid": int64(9), "ingero.chain.lost_ns": int64(70_000_000), "ingero.chain.baseline": "usual; judged with less: not all was seen", "ingero.chain.fix": nil, "ingero.chain.headline": nil})
	logs := r.logs(t)
	if len(logs) != 2 || logs[0].EventName != "ingero.chain_begin" || logs[1].EventName != "ingero.chain_end" || logs[0].SeverityText != "HIGH" || logs[0].SeverityNumber != 17 {
		t.Fatalf("logs %v", logs)
	}
	if !bytes.Equal(logs[0].TraceId, chain.TraceId) || !bytes.Equal(logs[1].SpanId, chain.SpanId) {
		t.Error("the records are not of the span")
	}
	has(t, values(logs[0].Attributes), map[string]any{"process.executable.name": "python3", "k8s.pod.name": "train-0", "ingero.chain.id": "cpu-taken-4"})
}

// A GPU fault is a log record with its description.
func TestXidRecords(t *testing.T) {
	r := newReceiver(t, nil)
	x := newExporter(t, r, HTTPProtobuf, SpansOff)
	one := tickAt(1)
	one.Xids = []tick.Xid{{Time: began.UnixNano(), Code: 172, Bus: "0000:75:00", Msg: "SM ICACHE", Via: tick.ViaTracepoint, PID: 4, Comm: "python3", Burst: 1, At: 1, Root: 172}}
	sent(t, x, one)
	logs := r.logs(t)
	if len(logs) != 1 || logs[0].Body.GetStringValue() != "XID event received: code=172 pci=0000:75:00 msg=SM ICACHE" || logs[0].TimeUnixNano != uint64(began.UnixNano()) {
		t.Fatalf("logs %v", logs)
	}
	has(t, values(logs[0].Attributes), map[string]any{"hw.id": "0000:75:00", "hw.type": "gpu", "error.type": "xid-172", "process.pid": int64(4), "event.name": "ingero.xid"})
}

// Metrics are those of the table: counters since the session's start, and distributions whose
// quantiles equal the sketch's.
func TestMetrics(t *testing.T) {
	r := newReceiver(t, nil)
	x := newExporter(t, r, HTTPProtobuf, SpansNotable)
	m := metric.New(metric.Options{Version: "1.2", Node: "n1", Publish: x.Publish})
	d, same := &stats.Sketch{}, &stats.Sketch{} // the second has equal durations
	for i := range int64(1000) {
		d.Add(1000+i*1000, 1)
	}
	same.Add(1_000_000, 7)
	for second := 1; second <= 12; second++ {
		one := tickAt(second)
		one.Host = tick.Host{CPU: 0.25, CPUs: 4, MemTotal: 100, MemAvail: 40}
		sum := tick.Counts{Calls: uint64(second), Done: 1000, Errors: 3}
		one.Ops = []tick.Op{{PID: 4, Op: testkit.Op("cudaMalloc"), Sum: sum, Last: tick.Counts{Calls: 1, Done: 80, Errors: 1}, Dur: d.Clone(), DurLast: d.Clone(), Hist: &stats.Hist{}},
			{PID: 4, Op: testkit.Op("cudaFree"), Sum: tick.Counts{Calls: 7, Done: 7}, Dur: same.Clone(), DurLast: same.Clone(), Hist: &stats.Hist{}}}
		if err := m.Tick(one); err != nil {
			t.Fatal(err)
		}
	}
	sent(t, x, tickAt(13))
	if n := r.count(); n != 3 { // the first, one after 10 s, and the rest
		t.Errorf("%d requests, want 3", n)
	}
	got := r.metrics(t)
	for _, name := range []string{"gpu.cuda.operation.duration", "gpu.cuda.operation.count", "system.cpu.utilization", "system.memory.utilization", "ingero.otlp.item.sent"} {
		if got[name] == nil {
			t.Fatalf("there is no %s", name)
		}
	}
	h := got["gpu.cuda.operation.duration"].GetExponentialHistogram()
	if h.AggregationTemporality != metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE || got["gpu.cuda.operation.duration"].Unit != "s" {
		t.Errorf("duration is %v", h.AggregationTemporality)
	}
	of := func(name string) *metricspb.ExponentialHistogramDataPoint {
		return h.DataPoints[slices.IndexFunc(h.DataPoints, func(p *metricspb.ExponentialHistogramDataPoint) bool {
			return values(p.Attributes)["operation"] == name
		})]
	}
	free := of("cudaFree")
	bound := func(i int) float64 {
		return math.Exp2(float64(int(free.Positive.Offset)+i) / math.Exp2(float64(free.Scale)))
	}
	if n := free.Positive.BucketCounts; len(n) != 1 || n[0] != 7*12 || bound(0) >= 1e-3 || bound(1) < 1e-3 {
		t.Errorf("84 durations of 1 ms are %v in a bucket from %v to %v", n, bound(0), bound(1))
	}
	for _, q := range []float64{0.01, 0.5, 0.9, 0.99} {
		if got, want := quantile(of("cudaMalloc"), q), float64(d.Quantile(q))/1e9; math.Abs(got-want) > 0.05*want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	count := got["gpu.cuda.operation.count"].GetSum()
	malloc := slices.IndexFunc(count.DataPoints, func(p *metricspb.NumberDataPoint) bool { return values(p.Attributes)["operation"] == "cudaMalloc" })
	if p := count.DataPoints[malloc]; !count.IsMonotonic || count.AggregationTemporality != metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE || p.GetAsDouble() != 12 || p.StartTimeUnixNano != uint64(began.UnixNano()) {
		t.Errorf("count %v", count)
	}
	has(t, values(count.DataPoints[malloc].Attributes), map[string]any{"operation": "cudaMalloc", "source": "cudart"})
	if v := got["system.cpu.utilization"].GetGauge().DataPoints[0].GetAsDouble(); v != 0.25 {
		t.Errorf("CPU %v", v)
	}
}

// A metrics request takes no more memory than accounted for.
func TestMetricsSize(t *testing.T) {
	r := newReceiver(t, nil)
	x := newExporter(t, r, HTTPProtobuf, SpansOff)
	f := metric.Family{Row: &metric.Rows[metric.OpCount]}
	const n = 2000
	for i := range n {
		f.Points = append(f.Points, metric.Point{Labels: []string{fmt.Sprint("operation", i), "cudart"}, Value: float64(i)})
	}
	s := &metric.Snapshot{Time: began, Started: began, Families: []metric.Family{f}}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	l := x.metrics(s)
	if took := heap() - before; took > 2*uint64(l.bytes()) {
		t.Errorf("it takes %d bytes and says %d", took, l.bytes())
	}
	runtime.KeepAlive(l)
}

// quantile reads an exponential histogram as its readers do: the middle of the bucket that contains
// the rank.
func quantile(p *metricspb.ExponentialHistogramDataPoint, q float64) float64 {
	left := uint64(math.Ceil(q * float64(p.Count)))
	for i, n := range p.Positive.BucketCounts {
		if n >= left {
			return math.Exp2((float64(int(p.Positive.Offset)+i) + 0.5) / math.Exp2(float64(p.Scale)))
		}
		left -= n
	}
	return math.NaN()
}

// If all signals are off there is no exporter.
func TestNothing(t *testing.T) {
	testkit.LeakCheck(t)
	if _, err := New(Options{}); err != ErrNothing {
		t.Errorf("error %v", err)
	}
	for _, s := range []Signal{Metrics, Traces, Logs} {
		if fmt.Sprint(s) == "" {
			t.Error("a signal has no name")
		}
	}
}
