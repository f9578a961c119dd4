package otlp

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	commonpb "go.opentelemetry.io/proto/slim/otlp/common/v1"
	logspb "go.opentelemetry.io/proto/slim/otlp/logs/v1"

	"ingero/internal/explain"
	"ingero/internal/metric"
	"ingero/internal/symbols"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Limits of what waits in the exporter, beside the queues.
const (
	spansOfLoad  = 512
	heldTicks    = 3     // for so many ticks at most a span waits for the names of its stack
	mostHeld     = 16384 // spans that wait
	mostPlaces   = 8192
	mostRecords  = 256 // log records of a tick
	mostOfTick   = 1024
	processStays = 5 * time.Minute
)

// ErrNothing says that no signal is to be sent anywhere.
var ErrNothing = errors.New("otlp: every signal is off")

// Exporter is a sink that sends the spans and logs of what it is given. Metrics are what
// [Exporter.Publish] is given. Its methods are for one goroutine, but for that one and
// [Exporter.State].
type Exporter struct {
	Options
	senders   [Signals]*sender // nil: the signal is off
	seed      uint64           // of the trace ids of this session
	base      []*commonpb.KeyValue
	maker     *spanMaker
	trees     trees
	chooser   chooser
	witnesses witnesses
	freed     freed
	doubles   map[uint64]bool // ids of spans of this tick that are a second free
	processes map[uint32]*process
	functions symbols.Functions // of the GPU
	places    map[uint32]*place // by stack
	order     []uint32          // of places, the oldest first
	filling   []span
	held      []heldLoad // the oldest first
	spansHeld int
	ticks     int
	closed    bool

	metered time.Time // of the metrics that were sent last; of the goroutine of Publish
	latest  atomic.Pointer[metric.Snapshot]
}

// heldLoad waits for the names of stacks.
type heldLoad struct {
	spans []span
	tick  int
}

// New starts an exporter. It opens no connection before there is something to send.
// [Exporter.Close] must follow.
func New(o Options) (*Exporter, error) {
	o.complete()
	x := &Exporter{Options: o, processes: map[uint32]*process{}, places: map[uint32]*place{}, base: baseAttrs(&o), chooser: newChooser(), freed: newFreed(), doubles: map[uint64]bool{}}
	x.seed = uint64(o.Clock.Now().UnixNano())
	x.maker = &spanMaker{seed: x.seed, base: x.base, own: o.Resource, scope: scope(o.Version)}
	for sig := range Signals {
		if o.Targets[sig].URL != nil {
			x.senders[sig] = newSender(o.Targets[sig], sig, &o)
		}
	}
	if x.senders == ([Signals]*sender{}) {
		return nil, ErrNothing
	}
	return x, nil
}

// State returns what became of each signal's items. It may be called from any goroutine.
func (x *Exporter) State() (out []Sent) {
	for _, s := range x.senders {
		if s != nil {
			out = append(out, s.state())
		}
	}
	return out
}

// Batch implements [tick.Sink].
func (x *Exporter) Batch(b *tick.Batch) error {
	if x.senders[Traces] == nil {
		return nil
	}
	for i := range b.Stacks {
		x.learn(&b.Stacks[i])
	}
	x.functions.Add(b.Functions)
	for i := range b.Calls {
		if c := &b.Calls[i]; x.freed.add(c) && len(x.doubles) < mostFreed {
			x.doubles[spanID(c)] = true
		}
		x.trees.add(&b.Calls[i], x.tree)
	}
	return nil
}

// learn takes in where calls were made.
func (x *Exporter) learn(s *events.Stack) {
	if x.places[s.ID] != nil {
		return
	}
	if len(x.order) == mostPlaces {
		delete(x.places, x.order[0])
		x.order = x.order[1:]
	}
	x.places[s.ID] = newPlace(s, explain.StackLines(s, ""))
	x.order = append(x.order, s.ID)
}

// tree takes in an outermost call and those inside it.
func (x *Exporter) tree(outer *events.Call, inside []events.Call) {
	if x.Spans == SpansAll {
		if fails(outer, inside) || x.chooser.slowCall(outer) {
			x.witnesses.add(outer, outer.Start)
		}
		x.spans(outer, inside, whyAll)
		return
	}
	if g := x.chooser.look(outer, inside); g != nil {
		x.group(g)
	}
}

// group makes spans of what was chosen.
func (x *Exporter) group(g *group) {
	outer := g.outer()
	if g.why != whySampled {
		x.witnesses.add(outer, outer.Start)
	}
	x.spans(outer, g.calls[:len(g.calls)-1], g.why)
}

// spans adds an outermost call and those inside it to what is sent.
func (x *Exporter) spans(outer *events.Call, inside []events.Call, why string) {
	if x.filling == nil {
		x.filling = make([]span, 0, spansOfLoad)
	}
	top := spanID(outer)
	x.filling = append(x.filling, span{call: *outer, root: outer.Start, why: why, double: x.doubles[top]})
	for i := range inside {
		parent := top
		if j := parentOf(inside, i); j >= 0 {
			parent = spanID(&inside[j])
		}
		x.filling = append(x.filling, span{call: inside[i], root: outer.Start, parent: parent, why: why, double: x.doubles[spanID(&inside[i])]})
	}
	if len(x.filling) >= spansOfLoad {
		x.hold()
	}
}

// hold has what was chosen wait for names, and sends on what there is no room for.
func (x *Exporter) hold() {
	if len(x.filling) == 0 {
		return
	}
	x.held = append(x.held, heldLoad{x.filling, x.ticks})
	x.spansHeld += len(x.filling)
	x.filling = nil
	for x.spansHeld > mostHeld {
		x.release(&x.held[0])
		x.held = x.held[1:]
	}
}

// release hands a load over to be sent.
func (x *Exporter) release(h *heldLoad) {
	x.spansHeld -= len(h.spans)
	for i := range h.spans {
		s := &h.spans[i]
		s.of, s.function = x.processes[s.call.PID], x.functions.Name(&s.call)
		if s.call.Stack != 0 {
			s.place = x.places[s.call.Stack]
		}
	}
	x.senders[Traces].put(&spanLoad{h.spans, x.maker})
}

// named tells whether the stacks of a load are known.
func (x *Exporter) named(h *heldLoad) bool {
	return !slices.ContainsFunc(h.spans, func(s span) bool { return s.call.Stack != 0 && x.places[s.call.Stack] == nil })
}

// Tick implements [tick.Sink].
func (x *Exporter) Tick(t *tick.Tick) error {
	x.ticks++
	x.know(t)
	if x.senders[Traces] != nil {
		x.tickSpans(t)
	}
	if s := x.senders[Logs]; s != nil {
		if records := x.records(t); len(records) > 0 {
			s.put(x.logs(records))
		}
	}
	return nil
}

// know keeps what is told of processes, and forgets those that have ended.
func (x *Exporter) know(t *tick.Tick) {
	listed := make(map[uint32]bool, len(t.Processes))
	for i := range t.Processes {
		p := &t.Processes[i]
		listed[p.PID] = p.Ended.IsZero() || t.Time.Sub(p.Ended) < processStays
		if old := x.processes[p.PID]; old == nil || !old.like(p) {
			x.processes[p.PID] = newProcess(p)
		}
	}
	for pid := range x.processes {
		if !listed[pid] {
			delete(x.processes, pid)
			delete(x.freed.of, pid)
		}
	}
}

// tickSpans sends what was held for long enough, and the chains that are over.
func (x *Exporter) tickSpans(t *tick.Tick) {
	x.trees.tidy(t.Final, x.tree)
	x.senders[Traces].lose(lostTooMany, x.chooser.left)
	for _, g := range x.chooser.tick(t) {
		x.group(g)
	}
	x.hold()
	clear(x.doubles)
	x.held = slices.DeleteFunc(x.held, func(h heldLoad) bool {
		if !t.Final && x.ticks-h.tick < heldTicks && !x.named(&h) {
			return false
		}
		x.release(&h)
		return true
	})
	for i := range t.Episodes[:min(len(t.Episodes), mostOfTick)] {
		if e := &t.Episodes[i]; e.Kind == tick.EpisodeEnd && !e.Hidden {
			x.senders[Traces].put(x.chainSpan(e, t))
		}
	}
}

// records are what a tick has to log.
func (x *Exporter) records(t *tick.Tick) (out []*logspb.LogRecord) {
	for i := range t.Episodes {
		if e := &t.Episodes[i]; !e.Hidden {
			out = append(out, x.record(e, t))
		}
	}
	for i := range t.Xids {
		out = append(out, xidRecord(&t.Xids[i], t))
	}
	if n := len(out); n > mostRecords {
		x.senders[Logs].lose(lostTooMany, n-mostRecords)
		out = out[:mostRecords]
	}
	return out
}

// Close sends what is left, for as long as [Options.Flush] says, and ends the exporter:
// nothing may be given to it any more. It is idempotent.
func (x *Exporter) Close() error {
	if x.closed {
		return nil
	}
	x.closed = true
	limit, stop := context.WithCancel(context.Background())
	defer stop()
	after := x.Clock.After(x.Flush)
	go func() {
		select {
		case <-after:
			stop()
		case <-limit.Done():
		}
	}()
	if s := x.latest.Load(); s != nil && s.Time.After(x.metered) {
		x.senders[Metrics].put(x.metrics(s))
	}
	all := slices.DeleteFunc(slices.Clone(x.senders[:]), func(s *sender) bool { return s == nil })
	for _, s := range all {
		s.end()
	}
	for _, s := range all {
		s.finish(limit.Done())
	}
	return nil
}
