package export

import (
	"slices"

	"ingero/pkg/events"
)

// Bounds of the state for arrows.
const (
	maxLanes = 4096 // streams, and events, per process
	maxOpen  = 16   // flows of a stream without a synchronize
)

// flows are a process's launches that no synchronize has waited for.
type flows struct {
	lanes  map[uint64]*lane     // by stream
	events map[uint64]laneEvent // by event
}

// lane is a stream. No event is recorded between launches of one flow.
type lane struct {
	now  uint64   // flow of the next launches; 0: none yet
	open []uint64 // including now
}

// laneEvent is the meaning of a recorded event.
type laneEvent struct {
	stream, flow uint64
}

// flows returns the flow of a launch, or the flows that a synchronize ends.
func (t *timeline) flows(c *events.Call) (out, in []uint64) {
	row := c.Op.Row()
	if row == nil {
		return nil, nil
	}
	of := t.streams[c.PID]
	if of == nil {
		of = &flows{map[uint64]*lane{}, map[uint64]laneEvent{}}
		t.streams[c.PID] = of
	}
	stream, streamed := c.Value(events.RoleStream)
	event, named := c.Value(events.RoleEvent)
	switch {
	case row.Class == events.ClassLaunch && streamed:
		return []uint64{of.launch(stream, &t.flow)}, nil
	case row.Class == events.ClassEvent && streamed && named:
		of.record(event, stream)
	case row.Class == events.ClassSync && row.Has(events.RoleEvent):
		return nil, of.event(event)
	case row.Class == events.ClassSync && row.Has(events.RoleStream):
		return nil, of.stream(stream)
	case row.Class == events.ClassSync:
		return nil, of.all()
	}
	return nil, nil
}

func (f *flows) launch(stream uint64, last *uint64) uint64 {
	l := f.lanes[stream]
	if l == nil {
		if len(f.lanes) >= maxLanes { // without arrows
			clear(f.lanes)
		}
		l = &lane{}
		f.lanes[stream] = l
	}
	if l.now == 0 {
		*last++
		l.now = *last
		if len(l.open) >= maxOpen {
			l.open = l.open[1:]
		}
		l.open = append(l.open, l.now)
	}
	return l.now
}

func (f *flows) record(event, stream uint64) {
	l := f.lanes[stream]
	if l == nil || l.now == 0 {
		return
	}
	if len(f.events) >= maxLanes {
		clear(f.events)
	}
	f.events[event], l.now = laneEvent{stream, l.now}, 0
}

// event ends the flows of an event's stream up to its recording.
func (f *flows) event(event uint64) []uint64 {
	e := f.events[event]
	delete(f.events, event)
	l := f.lanes[e.stream]
	if l == nil || e.flow == 0 {
		return nil
	}
	for i, flow := range l.open {
		if flow == e.flow {
			ended := append([]uint64(nil), l.open[:i+1]...)
			l.open = l.open[i+1:]
			return ended
		}
	}
	return nil // another synchronize has ended it
}

func (f *flows) stream(stream uint64) []uint64 {
	l := f.lanes[stream]
	if l == nil {
		return nil
	}
	delete(f.lanes, stream)
	return l.open
}

func (f *flows) all() (ended []uint64) {
	for _, l := range f.lanes {
		ended = append(ended, l.open...)
	}
	clear(f.lanes)
	slices.Sort(ended)
	return ended
}
