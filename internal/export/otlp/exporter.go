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

// Limits of what waits in the exporter, besides the queues.
const (
	spansOfLoad  = 512
	heldTicks    = 3     // ticks for which a span waits for its stack's names at most
	mostHeld     = 16384 // waiting spans
	mostPlaces   = 8192
	mostRecords  = 256 // log records of a tick
	mostOfTick   = 1024
	processStays = 5 * time.Minute
)

// ErrNothing means that all signals are off.
var ErrNothing = errors.New("otlp: all signals are off")

// Exporter is a sink that sends spans and logs. [Exporter.Publish] sends metrics. Only Publish and
// [Exporter.State] may be called from other goroutines.
type Exporter struct {
	Options
	senders      [Signals]*sender // nil: the signal is off
	seed         uint64           // of this session's trace ids
	base         []*commonpb.KeyValue
	maker        *spanMaker
	trees        trees
	chooser      chooser
	witnesses    witnesses
	freed        freed
	doubles      map[uint64]bool // ids of this tick's spans of double frees
	processes    map[uint32]*process
	functions    symbols.Functions // the GPU's
	places       map[uint32]*place // by stack
	order        []uint32          // of places, oldest first
	filling      []span
	waiting      []waitingLoad // oldest first
	waitingSpans int
	ticks        int
	ahead        time.Duration // of the wall clock, as of the last tick
	closed       bool

	metered time.Time // time of the last sent metrics; Publish's goroutine owns it
	latest  atomic.Pointer[metric.Snapshot]
}

// waitingLoad waits for the names of stacks.
type waitingLoad struct {
	spans []span
	tick  int
}

// New starts an exporter. It opens no connection before there is something to send. The caller must
// call [Exporter.Close].
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

// State returns the state of each signal's items. It is safe for concurrent use.
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

// learn records where calls were made.
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

// tree handles an outermost call with its inner calls.
func (x *Exporter) tree(outer *events.Call, inside []events.Call) {
	if x.Spans == SpansAll {
		if fails(outer, inside) || x.chooser.slowCall(outer) {
			x.witnesses.add(outer, outer.Start)
		}
		x.spans(outer, inside, reasonAll)
		return
	}
	if g := x.chooser.look(outer, inside); g != nil {
		x.group(g)
	}
}

// group adds a selected group's spans.
func (x *Exporter) group(g *group) {
	outer := g.outer()
	if g.reason != reasonSampled {
		x.witnesses.add(outer, outer.Start)
	}
	x.spans(outer, g.calls[:len(g.calls)-1], g.reason)
}

// spans adds the spans of an outermost call and its inner calls.
func (x *Exporter) spans(outer *events.Call, inside []events.Call, why string) {
	if x.filling == nil {
		x.filling = make([]span, 0, spansOfLoad)
	}
	top := spanID(outer)
	x.filling = append(x.filling, span{call: *outer, root: outer.Start, ahead: int64(x.ahead), reason: why, double: x.doubles[top]})
	for i := range inside {
		parent := top
		if j := parentOf(inside, i); j >= 0 {
			parent = spanID(&inside[j])
		}
		x.filling = append(x.filling, span{call: inside[i], root: outer.Start, ahead: int64(x.ahead), parent: parent, reason: why, double: x.doubles[spanID(&inside[i])]})
	}
	if len(x.filling) >= spansOfLoad {
		x.hold()
	}
}

// hold keeps selected spans until their names are known, and releases the oldest beyond mostHeld.
func (x *Exporter) hold() {
	if len(x.filling) == 0 {
		return
	}
	x.waiting = append(x.waiting, waitingLoad{x.filling, x.ticks})
	x.waitingSpans += len(x.filling)
	x.filling = nil
	for x.waitingSpans > mostHeld {
		x.release(&x.waiting[0])
		x.waiting = x.waiting[1:]
	}
}

// release queues a load.
func (x *Exporter) release(h *waitingLoad) {
	x.waitingSpans -= len(h.spans)
	for i := range h.spans {
		s := &h.spans[i]
		s.process, s.function = x.processes[s.call.PID], x.functions.Name(&s.call)
		if s.call.Stack != 0 {
			s.place = x.places[s.call.Stack]
		}
	}
	x.senders[Traces].enqueue(&spanLoad{h.spans, x.maker})
}

// named reports whether the stacks of a load are known.
func (x *Exporter) named(h *waitingLoad) bool {
	return !slices.ContainsFunc(h.spans, func(s span) bool { return s.call.Stack != 0 && x.places[s.call.Stack] == nil })
}

// Tick implements [tick.Sink].
func (x *Exporter) Tick(t *tick.Tick) error {
	x.ticks++
	x.ahead = t.Ahead
	x.know(t)
	if x.senders[Traces] != nil {
		x.tickSpans(t)
	}
	if s := x.senders[Logs]; s != nil {
		if records := x.records(t); len(records) > 0 {
			s.enqueue(x.logs(records))
		}
	}
	return nil
}

// know remembers the tick's processes, and forgets ended ones.
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
			delete(x.freed.processes, pid)
		}
	}
}

// tickSpans sends loads that were held long enough, and finished chains.
func (x *Exporter) tickSpans(t *tick.Tick) {
	x.trees.tidy(t.Final, x.tree)
	x.senders[Traces].lose(lostTooMany, x.chooser.left)
	for _, g := range x.chooser.tick(t) {
		x.group(g)
	}
	x.hold()
	clear(x.doubles)
	x.waiting = slices.DeleteFunc(x.waiting, func(h waitingLoad) bool {
		if !t.Final && x.ticks-h.tick < heldTicks && !x.named(&h) {
			return false
		}
		x.release(&h)
		return true
	})
	wall := t.Wall()
	for i := range t.Episodes[:min(len(t.Episodes), mostOfTick)] {
		if e := &wall.Episodes[i]; e.Kind == tick.EpisodeEnd && !e.Hidden {
			x.senders[Traces].enqueue(x.chainSpan(e, wall))
		}
	}
}

// records returns a tick's log records.
func (x *Exporter) records(t *tick.Tick) (out []*logspb.LogRecord) {
	t = t.Wall()
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

// Close sends the rest, for at most [Options.Flush], and ends the exporter, which must not be used
// afterwards. It is idempotent.
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
		x.senders[Metrics].enqueue(x.metrics(s))
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
