package otlp

import (
	"encoding/binary"

	"google.golang.org/protobuf/proto"

	collectorpb "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/slim/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"

	"ingero/internal/explain"
	"ingero/pkg/events"
)

// span is a call that becomes a span.
type span struct {
	call    events.Call
	root    int64  // Start of the outermost call, which identifies the trace
	ahead   int64  // of the wall clock, in ns
	parent  uint64 // id of the parent span, 0: none
	reason  string
	double  bool     // a double free
	place   *place   // of its stack; nil: unknown
	process *process // nil: unknown
	// function is the symbol of the launched GPU function; empty: none, or unknown.
	function string
}

// spanBytes is a span's approximate memory, without what it points to.
const spanBytes = 320

// id returns the span's id, which depends on the call only.
func (s *span) id() uint64 { return spanID(&s.call) }

func spanID(c *events.Call) uint64 {
	return notZero(mix(mix(uint64(c.Start)^uint64(c.Op)<<48) ^ uint64(c.PID)<<32 ^ uint64(c.TID) ^ uint64(c.Duration)<<20))
}

// traceID returns the trace id of an outermost call.
func traceID(seed uint64, pid, tid uint32, root int64) (id [16]byte) {
	binary.BigEndian.PutUint64(id[:], notZero(mix(seed^uint64(pid)<<32^uint64(tid))))
	binary.BigEndian.PutUint64(id[8:], notZero(mix(uint64(root)^uint64(tid)<<40)))
	return id
}

// mix is the finalizer of splitmix64: each bit of x changes half of the result's bits.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func notZero(x uint64) uint64 { return max(x, 1) }

func appendID(id uint64) []byte { return binary.BigEndian.AppendUint64(nil, id) }

// spanLoad is a load of spans of calls. One goroutine makes its messages.
type spanLoad struct {
	spans []span
	maker *spanMaker
}

func (l *spanLoad) items() int             { return len(l.spans) }
func (l *spanLoad) bytes() int             { return len(l.spans) * spanBytes }
func (l *spanLoad) message() proto.Message { return l.maker.request(l.spans) }
func (l *spanLoad) halves() []load {
	return inHalves(l.spans, func(half []span) load { return &spanLoad{half, l.maker} })
}

// spanMaker makes requests of spans in reused memory. It is not safe for concurrent use.
type spanMaker struct {
	seed  uint64
	base  []*commonpb.KeyValue // resource attributes of all
	own   []Attr               // override a process's own
	scope *commonpb.InstrumentationScope
	attrs attrs
	spans slab[tracepb.Span]
	ids   []byte
	args  map[string]string // attribute names by argument names
	words map[string]string // demangled names of GPU functions, by symbol
}

// mostWords bounds the cached names.
const mostWords = 4096

// request groups spans by process: each is a resource.
func (m *spanMaker) request(list []span) *collectorpb.ExportTraceServiceRequest {
	m.attrs.reset()
	m.spans.reset()
	m.ids = m.ids[:0]
	out := &collectorpb.ExportTraceServiceRequest{}
	by := map[uint32]*tracepb.ScopeSpans{}
	for i := range list {
		s := &list[i]
		to := by[s.call.PID]
		if to == nil {
			to = &tracepb.ScopeSpans{Scope: m.scope}
			by[s.call.PID] = to
			out.ResourceSpans = append(out.ResourceSpans, &tracepb.ResourceSpans{
				Resource: resourceOf(m.base, m.own, s.process, s.call.PID), ScopeSpans: []*tracepb.ScopeSpans{to}})
		}
		to.Spans = append(to.Spans, m.span(s))
	}
	return out
}

// bytes8 stores an id.
func (m *spanMaker) bytes8(id uint64) []byte {
	m.ids = binary.BigEndian.AppendUint64(m.ids, id)
	return m.ids[len(m.ids)-8 : len(m.ids) : len(m.ids)]
}

func (m *spanMaker) span(s *span) *tracepb.Span {
	c := &s.call
	out := m.spans.next()
	out.TraceId = appendTrace(m, traceID(m.seed, c.PID, c.TID, s.root))
	out.SpanId, out.ParentSpanId = m.bytes8(s.id()), nil
	if s.parent != 0 {
		out.ParentSpanId = m.bytes8(s.parent)
	}
	out.Name, out.Kind = c.Op.String(), tracepb.Span_SPAN_KIND_INTERNAL
	out.StartTimeUnixNano = uint64(c.Start + s.ahead)
	out.EndTimeUnixNano = out.StartTimeUnixNano
	out.Status = nil
	if c.Flags&events.CallUnmeasured == 0 {
		out.EndTimeUnixNano = uint64(c.End() + s.ahead)
	}
	m.callAttrs(s)
	if c.Flags&events.CallFailed != 0 {
		said := events.ErrorName(c.Op, c.Result)
		if s.double {
			said = "double free: " + said
			m.attrs.other("ingero.double_free", true)
		}
		out.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: said}
	}
	out.Attributes = m.attrs.take()
	return out
}

func appendTrace(m *spanMaker, id [16]byte) []byte {
	m.ids = append(m.ids, id[:]...)
	return m.ids[len(m.ids)-16 : len(m.ids) : len(m.ids)]
}

// callAttrs adds a call's attributes.
func (m *spanMaker) callAttrs(s *span) {
	a, c := &m.attrs, &s.call
	a.text(attrSource, c.Op.Source().String())
	a.num("thread.id", int64(c.TID))
	a.text("ingero.span.reason", s.reason)
	if c.Device > 0 {
		a.num("gpu.cuda.device", int64(c.Device)-1)
	}
	if c.Weight > 1 {
		a.num("ingero.weight", int64(c.Weight))
	}
	if c.Flags&events.CallUnmeasured == 0 {
		m.times(c)
	} else {
		a.other("ingero.unmeasured", true)
	}
	explain.EachValue(c, func(name string, value any) { a.other(m.arg(name), value) })
	if s.function != "" {
		a.text("gpu.cuda.kernel.name", m.word(s.function))
	}
	if p := s.place; p != nil {
		a.text("code.function.name", p.function)
		a.text("code.file.path", p.file)
		if p.line > 0 {
			a.num("code.line.number", int64(p.line))
		}
		if s.reason != reasonAll && s.reason != reasonSampled {
			a.text("code.stacktrace", p.trace)
		}
	}
}

// arg returns an argument's attribute name.
func (m *spanMaker) arg(name string) string {
	key, known := m.args[name]
	if !known {
		if m.args == nil {
			m.args = map[string]string{}
		}
		key = "gpu.cuda.arg." + name
		m.args[name] = key
	}
	return key
}

// word returns a GPU function's demangled name.
func (m *spanMaker) word(linked string) string {
	name, known := m.words[linked]
	if !known {
		if m.words == nil || len(m.words) >= mostWords {
			m.words = map[string]string{}
		}
		name = explain.FunctionName(linked)
		m.words[linked] = name
	}
	return name
}

// times adds the result, and the ledger: its parts add up to the duration.
func (m *spanMaker) times(c *events.Call) {
	a := &m.attrs
	a.num("gpu.cuda.result", int64(c.Result))
	if c.Flags&events.CallFailed != 0 {
		a.text("error.type", events.ErrorName(c.Op, c.Result))
	}
	if c.Flags&events.CallNoLedger == 0 {
		a.num("ingero.runnable_ns", c.Runnable)
		if c.Throttled > 0 {
			a.num("ingero.throttled_ns", c.Throttled)
		}
	}
	if c.Flags&events.CallLedgerPartial == 0 {
		a.num("ingero.on_cpu_ns", c.OnCPU)
		a.num("ingero.blocked_ns", c.Blocked)
	}
	if c.Gap > 0 {
		a.num("ingero.gap_ns", c.Gap)
	}
}
