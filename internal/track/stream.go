package track

import (
	"cmp"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Handles of streams that every device has: 0 is the default stream, 1 the legacy one, 2 the
// per-thread one.
const lastSharedStream = 2

// recentLaunches is the number of launches per stream with kept times, so that launches made while
// another thread waits do not count as done.
const recentLaunches = 8

// streamKey identifies streams. A handle that every device has is a separate stream on each.
type streamKey struct {
	handle uint64
	device int16
}

// stream is one stream. It counts launches, and those known to be done, so that a recorded event
// can refer to a position.
type stream struct {
	tick.Stream
	done   uint64 // launches
	recent [recentLaunches]int64
}

// mark is the position in its stream where an event was recorded.
type mark struct {
	stream *stream
	upTo   uint64 // launches
}

// streams has the streams of a process.
type streams struct {
	all    map[streamKey]*stream
	at     streamKey
	last   *stream // stream of at
	events map[uint64]mark
}

func (s *streams) reset() {
	*s = streams{all: map[streamKey]*stream{}, events: map[uint64]mark{}}
}

// leave drops the streams of a device; with 0 all streams.
func (s *streams) leave(device int16) {
	for k, x := range s.all {
		if device == 0 || x.Device == device {
			delete(s.all, k)
		}
	}
	s.last = nil
	clear(s.events)
}

// stream returns the stream of a call, or nil if it is unknown or the table is full.
func (p *process) stream(c *events.Call) *stream {
	handle, known := c.Value(events.RoleStream)
	if !known && c.Op.Row().Has(events.RoleStream) {
		return nil
	}
	k := streamKey{handle: handle}
	if handle <= lastSharedStream {
		k.device = c.Device
	}
	s := &p.streams
	if s.last != nil && s.at == k {
		return s.last
	}
	x := s.all[k]
	if x == nil {
		if len(s.all) >= maxHandles {
			p.untracked++
			return nil
		}
		x = &stream{Stream: tick.Stream{Number: p.number(), Handle: handle, Device: c.Device}}
		s.all[k] = x
	}
	s.at, s.last = k, x
	return x
}

// makeStream takes in a new stream, and drops any earlier one with its handle.
func makeStream(p *process, _ *thread, c *events.Call, _ *effect) {
	if handle, ok := c.Value(events.RoleStream); done(c) && ok && handle > lastSharedStream {
		delete(p.streams.all, streamKey{handle: handle})
		p.streams.last = nil
		if x := p.stream(c); x != nil {
			x.Last = c.End()
		}
	}
}

func dropStream(p *process, _ *thread, c *events.Call, _ *effect) {
	if handle, ok := c.Value(events.RoleStream); done(c) && ok {
		delete(p.streams.all, streamKey{handle: handle})
		p.streams.last = nil
	}
}

// launch takes in a launch. A launch inside another is the same launch.
func launch(p *process, th *thread, c *events.Call, _ *effect) {
	if inside(c, launches) || c.Flags&events.CallFailed != 0 {
		return
	}
	if th.capture != nil { // captured, not run
		th.capture.CaptureLaunches += uint64(c.Weight)
		return
	}
	if x := p.stream(c); x != nil {
		x.Last = c.End()
		x.recent[x.Launches%recentLaunches] = c.Start
		x.Launches += uint64(c.Weight)
	}
	if exec, ok := c.Value(events.RoleExec); ok {
		p.graphs.launched(p, exec, c)
	}
}

// until marks the launches of a stream before a time as done.
func (x *stream) until(start int64) {
	var later uint64
	for _, at := range x.recent {
		if at > start {
			later++
		}
	}
	if later < recentLaunches {
		x.done = max(x.done, x.Launches-min(later, x.Launches))
	}
}

// wait takes in a call that waits for the GPU or queries it: for a stream, an event, or, without
// either, the device.
func wait(p *process, _ *thread, c *events.Call, _ *effect) {
	if !done(c) {
		return
	}
	row := c.Op.Row()
	switch {
	case row.Has(events.RoleStream):
		if x := p.stream(c); x != nil {
			x.Last = c.End()
			x.until(c.Start)
		}
	case row.Has(events.RoleEvent):
		if event, ok := c.Value(events.RoleEvent); ok {
			if m := p.streams.events[event]; m.stream != nil {
				m.stream.done = max(m.stream.done, m.upTo)
			}
		}
	case row.Class == events.ClassSync:
		for _, x := range p.streams.all {
			if x.Device == c.Device || c.Device == 0 {
				x.until(c.Start)
			}
		}
	}
}

// record takes in an event recorded in a stream.
func record(p *process, _ *thread, c *events.Call, _ *effect) {
	event, ok := c.Value(events.RoleEvent)
	if !done(c) || !ok {
		return
	}
	x := p.stream(c)
	if x == nil {
		delete(p.streams.events, event)
		return
	}
	if _, there := p.streams.events[event]; !there && len(p.streams.events) >= maxHandles {
		p.untracked++
		return
	}
	p.streams.events[event] = mark{x, x.Launches}
}

func dropEvent(p *process, _ *thread, c *events.Call, _ *effect) {
	if event, ok := c.Value(events.RoleEvent); done(c) && ok {
		delete(p.streams.events, event)
	}
}

func (s *streams) list() tick.List[tick.Stream] {
	out := make([]tick.Stream, 0, len(s.all))
	for _, x := range s.all {
		x.Outstanding = x.Launches - x.done
		out = append(out, x.Stream)
	}
	return first(out, func(a, b tick.Stream) int {
		return cmp.Or(cmp.Compare(b.Launches+b.Copies, a.Launches+a.Copies), cmp.Compare(a.Device, b.Device), cmp.Compare(a.Handle, b.Handle))
	})
}
