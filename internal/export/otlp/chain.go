package otlp

import (
	"cmp"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	collectorlogs "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	collectortrace "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/slim/otlp/common/v1"
	logspb "go.opentelemetry.io/proto/slim/otlp/logs/v1"
	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"ingero/internal/explain"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Limits of a chain.
const (
	mostLinks    = 32
	mostMoments  = 64
	mostCulprits = 8
	mostEvidence = 4096 // calls that chains may link to
)

// evidence is a call with a span that a chain may link to.
type evidence struct {
	start, end int64
	root       int64
	id         uint64
	pid, tid   uint32
	op         events.Op
}

// witnesses are the latest of them.
type witnesses struct {
	list []evidence
	next int
}

func (w *witnesses) add(c *events.Call, root int64) {
	e := evidence{c.Start, c.End(), root, spanID(c), c.PID, c.TID, c.Op}
	if len(w.list) < mostEvidence {
		w.list = append(w.list, e)
		return
	}
	w.list[w.next] = e
	w.next = (w.next + 1) % mostEvidence
}

// evidence returns the evidence of an episode: calls of its process between its first and last slow
// step, longest first. The episode's times are by the wall clock, which is ahead of that of calls.
func (w *witnesses) evidence(e *tick.Episode, ahead time.Duration) (out []evidence) {
	from, to := e.From.Add(-ahead).UnixNano(), e.To.Add(-ahead).UnixNano()
	for _, x := range w.list {
		if x.pid == e.Chain.PID && x.end >= from && x.start <= to {
			out = append(out, x)
		}
	}
	slices.SortFunc(out, func(a, b evidence) int {
		return cmp.Or(cmp.Compare(b.end-b.start, a.end-a.start), cmp.Compare(a.start, b.start))
	})
	return out[:min(len(out), mostLinks)]
}

// episodeID returns the trace id of an episode's span and log records, and the span id.
func episodeID(seed uint64, id string) (trace [16]byte, span uint64) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id)) // cannot fail
	n := h.Sum64()
	return traceID(seed, 0, 0, int64(n)), notZero(mix(n))
}

// chainSpan returns a finished episode as a span. Times are by the wall clock.
func (x *Exporter) chainSpan(e *tick.Episode, t *tick.Tick) load {
	var a attrs
	c := &e.Chain
	trace, id := episodeID(x.seed, e.ID)
	x.chainAttrs(&a, e, t)
	out := &tracepb.Span{TraceId: trace[:], SpanId: appendID(id), Name: "chain " + c.Rule, Kind: tracepb.Span_SPAN_KIND_INTERNAL,
		StartTimeUnixNano: uint64(e.From.UnixNano()), EndTimeUnixNano: uint64(max(e.To.UnixNano(), e.From.UnixNano())), Attributes: a.take()}
	for _, w := range x.witnesses.evidence(e, x.ahead) {
		a.text("gpu.cuda.operation.name", w.op.String())
		a.num("ingero.duration_ns", w.end-w.start)
		linked := traceID(x.seed, w.pid, w.tid, w.root)
		out.Links = append(out.Links, &tracepb.Span_Link{TraceId: linked[:], SpanId: appendID(w.id), Attributes: a.take()})
	}
	for _, m := range c.Timeline[:min(len(c.Timeline), mostMoments)] {
		a.text("ingero.source", m.Source)
		out.Events = append(out.Events, &tracepb.Span_Event{TimeUnixNano: uint64(m.Time.UnixNano()), Name: valid(m.Text), Attributes: a.take()})
	}
	m := &collectortrace.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource:   resourceOf(x.base, x.Resource, x.processes[c.PID], c.PID),
		ScopeSpans: []*tracepb.ScopeSpans{{Scope: scope(x.Version), Spans: []*tracepb.Span{out}}}}}}
	return ready{m: m, n: 1, size: sizeOf(m)}
}

// chainAttrs adds a chain's attributes, for its span and its log records.
func (x *Exporter) chainAttrs(a *attrs, e *tick.Episode, t *tick.Tick) {
	c := &e.Chain
	head, cause, fix := explain.ChainWords(c, t)
	a.text("ingero.chain.id", c.ID)
	a.text("ingero.chain.episode", e.ID)
	a.text("ingero.chain.rule", c.Rule)
	a.text("ingero.chain.severity", e.Severity.String())
	a.text("ingero.chain.headline", head)
	a.text("ingero.chain.cause", cause)
	a.text("ingero.chain.fix", fix)
	a.text("ingero.chain.why", string(e.Why))
	a.num("ingero.chain.lost_ns", int64(e.Lost))
	a.other("ingero.chain.confidence", min(max(c.Confidence, 0), 1))
	a.text("ingero.chain.baseline", c.Baseline)
	a.num("ingero.chain.steps", int64(c.Steps))
	a.num("ingero.chain.slow_steps", int64(c.Slow))
	if c.Op != 0 {
		a.text(attrOp, c.Op.String())
	}
	a.text("ingero.chain.at", c.At)
	a.num(attrPID, int64(c.PID))
	if c.TID != 0 {
		a.num("thread.id", int64(c.TID))
	}
	var names []string
	for i := range c.Culprits[:min(len(c.Culprits), mostCulprits)] {
		k := &c.Culprits[i]
		name := k.What
		if k.Thread.TID != 0 {
			name = strings.TrimSpace(k.Thread.Name.String() + " " + k.What)
			if len(names) == 0 {
				a.num("ingero.culprit.pid", int64(k.Thread.PID))
			}
		}
		names = append(names, name)
	}
	a.text("ingero.culprit", strings.Join(names, ", "))
}

// severities are the severities of log records, by severity of chains.
var severities = [...]logspb.SeverityNumber{0, logspb.SeverityNumber_SEVERITY_NUMBER_INFO, logspb.SeverityNumber_SEVERITY_NUMBER_WARN, logspb.SeverityNumber_SEVERITY_NUMBER_ERROR}

// record returns an episode event as a log record.
func (x *Exporter) record(e *tick.Episode, t *tick.Tick) *logspb.LogRecord {
	var a attrs
	x.chainAttrs(&a, e, t)
	if p := x.processes[e.Chain.PID]; p != nil {
		a.list = append(a.list, p.attrs...)
	}
	out := newRecord(t.Time, t.Time, explain.EpisodeLine(e, t, time.UTC), "ingero."+e.Kind.String(), &a)
	if int(e.Severity) < len(severities) {
		out.SeverityNumber, out.SeverityText = severities[e.Severity], e.Severity.String()
	}
	if x.senders[Traces] != nil {
		trace, id := episodeID(x.seed, e.ID)
		out.TraceId, out.SpanId = trace[:], appendID(id)
	}
	return out
}

// xidRecord returns a GPU fault as a log record.
func xidRecord(f *tick.Xid, t *tick.Tick) *logspb.LogRecord {
	var a attrs
	kind := "xid"
	if f.Switch {
		kind = "sxid"
	}
	a.text("hw.id", f.Bus)
	if !f.Switch {
		a.text("hw.type", "gpu")
	}
	a.text("error.type", kind+"-"+strconv.Itoa(int(f.Code)))
	a.num("ingero.xid.code", int64(f.Code))
	a.num("ingero.xid.burst", int64(f.Burst))
	a.num("ingero.xid.at", int64(f.At))
	a.num("ingero.xid.root", int64(f.Root))
	if f.CausedBy != 0 {
		a.num("ingero.xid.caused_by", int64(f.CausedBy))
	}
	for name, n := range map[string]tick.Number{"ingero.gpu.instance": f.GPUInstance, "ingero.gpu.compute_instance": f.ComputeInstance} {
		if v, known := n.Value(); known {
			a.num(name, int64(v))
		}
	}
	a.text("ingero.xid.via", f.Via.String())
	if f.Injected {
		a.other("ingero.xid.injected", true)
	}
	if f.PID != 0 {
		a.num(attrPID, int64(f.PID))
		a.text(attrComm, f.Comm)
	}
	body, _, _ := strings.Cut(explain.XidText(f, false, time.UTC), "\n")
	out := newRecord(time.Unix(0, f.Time), t.Time, body, "ingero.xid", &a)
	out.SeverityNumber, out.SeverityText = logspb.SeverityNumber_SEVERITY_NUMBER_ERROR, "ERROR"
	return out
}

// newRecord makes a record. The event's name is also an attribute, for receivers that predate the
// field.
func newRecord(at, seen time.Time, body, event string, a *attrs) *logspb.LogRecord {
	a.text("event.name", event)
	return &logspb.LogRecord{TimeUnixNano: uint64(at.UnixNano()), ObservedTimeUnixNano: uint64(seen.UnixNano()), EventName: event,
		Body: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: valid(body)}}, Attributes: a.take()}
}

// logs makes a load of records.
func (x *Exporter) logs(records []*logspb.LogRecord) load {
	m := &collectorlogs.ExportLogsServiceRequest{ResourceLogs: []*logspb.ResourceLogs{{
		Resource: agentResource(&x.Options), ScopeLogs: []*logspb.ScopeLogs{{Scope: scope(x.Version), LogRecords: records}}}}}
	return ready{m, len(records), sizeOf(m), func() []load { return inHalves(records, x.logs) }}
}

// sizeOf estimates a message's size in memory: several times its encoded size.
func sizeOf(m proto.Message) int { return 6 * proto.Size(m) }

func valid(s string) string { return strings.ToValidUTF8(s, "?") }
