package query

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"ingero/internal/store/segment"
	"ingero/internal/symbols"
	"ingero/pkg/events"
)

// Stacks holds the stacks of a session's calls, by ID.
type Stacks struct {
	frames map[int32]events.Frame
	stacks map[uint32]storedStack
}

type storedStack struct {
	pid    uint32
	cut    bool
	site   string
	frames []int32
}

// Stack returns the stack with an ID, nil if it is unknown. Own is not set: [Stacks.Site] has the place.
func (s *Stacks) Stack(id uint32) *events.Stack {
	x, ok := s.stacks[id]
	if !ok {
		return nil
	}
	out := &events.Stack{ID: id, PID: x.pid, Cut: x.cut, Frames: make([]events.Frame, len(x.frames))}
	for i, f := range x.frames {
		out.Frames[i] = s.frames[f]
	}
	return out
}

// Site describes the location of a call with a stack, as in "train.py:142 in forward()"; "" if
// unknown.
func (s *Stacks) Site(id uint32) string { return s.stacks[id].site }

// kindsByName are the kinds of frames by their names in the file.
var kindsByName = map[string]events.FrameKind{
	"native": events.FrameNative, "python": events.FramePython, "gpu": events.FrameGPU, "gap": events.FrameGap,
}

// Stacks returns a session's stacks. They outlive the calls.
func (r *Reader) Stacks(ctx context.Context, s *Session) (*Stacks, error) {
	out := &Stacks{frames: map[int32]events.Frame{}, stacks: map[uint32]storedStack{}}
	err := r.rows(ctx, func(rows *sql.Rows) error {
		var f events.Frame
		var id int32
		var kind string
		var line sql.NullInt64
		err := rows.Scan(&id, &kind, &f.Func, &f.File, &line, &f.Module, &f.Offset, &f.Inline)
		f.Kind, f.Line = kindsByName[kind], int32(line.Int64)
		out.frames[id] = f
		return err
	}, "SELECT id, kind, func, file, line, module, offset, inline FROM frames WHERE session = ?", s.id)
	if err == nil {
		err = r.rows(ctx, func(rows *sql.Rows) error {
			var x storedStack
			var id uint32
			var list string
			if err := rows.Scan(&id, &x.pid, &x.cut, &x.site, &list); err != nil {
				return err
			}
			if err := json.Unmarshal([]byte(list), &x.frames); err != nil {
				return fmt.Errorf("frames of stack %d: %w", id, err)
			}
			out.stacks[id] = x
			return nil
		}, "SELECT id, pid, cut, site, frames FROM stacks WHERE session = ?", s.id)
	}
	if err != nil {
		return nil, fmt.Errorf("read the stacks of session %s: %w", s.ID, err)
	}
	return out, nil
}

// StackSum sums up the calls with a stack. Sampled stacks stand for the omitted calls, so these are
// estimates unless all stacks were taken. Times cover outermost traced calls only, in ns.
type StackSum struct {
	Stack    *events.Stack // nil: only its number is known
	Site     string
	Function string // symbol of the launched GPU function; "": no launch, or no name
	PID      uint32
	Op       events.Op
	Calls    uint64
	Launches uint64
	Wall     uint64
	GPUWait  uint64 // in calls that wait for the GPU, on a CPU or blocked
	Runnable uint64
	Live     uint64 // bytes allocated and not freed at the end
}

type stackKey struct {
	id       uint32
	op       events.Op
	pid      uint32
	function string
}

// liveKey identifies an allocation.
type liveKey struct {
	pid uint32
	ptr uint64
}

type liveBytes struct {
	of    stackKey
	bytes uint64
}

// stackSums accumulates sums by stack.
type stackSums struct {
	funcs *symbols.Functions
	sums  map[stackKey]*StackSum
	live  map[liveKey]liveBytes

	thinned bool
}

// maxLive bounds the live allocations in memory.
const maxLive = 1 << 20

func (s *stackSums) add(c *events.Call) {
	s.memory(c)
	n := c.StackWeight()
	if n == 0 {
		return
	}
	k := s.key(c)
	sum := s.sums[k]
	if sum == nil {
		sum = &StackSum{Function: k.function, PID: c.PID, Op: c.Op}
		s.sums[k] = sum
	}
	sum.Calls += n
	if symbols.Launches(c) {
		sum.Launches += n
	}
	if c.Flags&(events.CallNested|events.CallUnmeasured) != 0 {
		return
	}
	sum.Wall += n * uint64(c.Duration)
	sum.Runnable += n * uint64(c.Runnable)
	if r := c.Op.Row(); r != nil && r.Class == events.ClassSync {
		sum.GPUWait += n * uint64(max(c.Duration-c.Runnable-c.Throttled, 0))
	}
}

func (s *stackSums) key(c *events.Call) stackKey {
	k := stackKey{id: c.Stack, op: c.Op, pid: c.PID}
	if symbols.Launches(c) {
		k.function = s.funcs.Name(c)
	}
	return k
}

// memory tracks allocations and frees. A driver call inside a runtime call concerns the same
// memory, and ends before it.
func (s *stackSums) memory(c *events.Call) {
	r := c.Op.Row()
	if r == nil || r.Class != events.ClassMalloc && r.Class != events.ClassFree || c.Flags&events.CallFailed != 0 {
		return
	}
	ptr, known := c.Value(events.RolePtr)
	if !known || ptr == 0 {
		return
	}
	at := liveKey{c.PID, ptr}
	if r.Class == events.ClassFree {
		delete(s.live, at)
		return
	}
	bytes, known := c.Value(events.RoleBytes)
	if !known {
		return
	}
	if c.Stack == 0 {
		delete(s.live, at) // its owner is now unknown
	} else if len(s.live) < maxLive {
		s.live[at] = liveBytes{s.key(c), bytes * c.StackWeight()}
	}
}

// StackSums sums up a session's matching calls with a stack, by stack, operation and launched
// function, most time first. without is the number of calls without a stack.
func (r *Reader) StackSums(ctx context.Context, f Filter) (out []StackSum, without uint64, cover Coverage, err error) {
	all, cover, err := r.stackSums(ctx, f, 0, 0)
	if err != nil && all == nil {
		return nil, 0, cover, err
	}
	return all.Sums, all.Without, cover, err
}

// StackSample sums up the calls with stacks in a part of a window.
type StackSample struct {
	Sums    []StackSum // most time first
	Without uint64     // calls without a stack
	Share   float64    // share of the window's calls that were read, 0 to 1
}

// sampleSlices is the number of slices of a sampled window.
const sampleSlices = 64

// StackSample is [Reader.StackSums] for slices of the window with approximately most calls
// together, or for the whole window if it has no more. Live memory is known only for the whole
// window.
func (r *Reader) StackSample(ctx context.Context, f Filter, most uint64) (*StackSample, Coverage, error) {
	calls, known, err := r.Called(ctx, f)
	if err != nil {
		return nil, Coverage{}, err
	}
	if !known || calls <= most {
		return r.stackSums(ctx, f, 0, 0)
	}
	s, err := r.Session(ctx, f.Session)
	if err != nil {
		return nil, Coverage{}, err
	}
	if f.From.Before(s.Started) {
		f.From = s.Started
	}
	if end := later(s.Updated, s.Ended).Add(1); f.To.IsZero() || f.To.After(end) {
		f.To = end
	}
	every := max(f.To.Sub(f.From)/sampleSlices, 1)
	return r.stackSums(ctx, f, every, max(time.Duration(float64(every)*float64(most)/float64(calls)), 1))
}

// stackSums sums the calls in the first length of each every, or all if every is 0.
func (r *Reader) stackSums(ctx context.Context, f Filter, every, length time.Duration) (*StackSample, Coverage, error) {
	s, err := r.Session(ctx, f.Session)
	if err != nil {
		return nil, Coverage{}, err
	}
	labels, err := r.Labelled(ctx, &s, f)
	if err != nil {
		return nil, Coverage{}, err
	}
	add := stackSums{sums: map[stackKey]*StackSum{}, live: map[liveKey]liveBytes{}}
	if add.funcs, err = r.Functions(ctx, &s); err != nil {
		return nil, Coverage{}, err
	}
	stacks, err := r.Stacks(ctx, &s)
	if err != nil {
		return nil, Coverage{}, err
	}
	f.Session = s.ID
	from, to := bounds(f)
	out := &StackSample{Share: 1}
	var seen uint64
	cover, err := r.entries(ctx, &s, func(l *segment.Log) {
		l.Window(from, to)
		l.CallsOnly(0)
		l.Slices(int64(every), int64(length))
		skipTo(l, from)
	}, func(e *segment.Entry) bool {
		for i := range e.Calls {
			c := &e.Calls[i]
			if c.Start < from || c.Start >= to {
				continue
			}
			if !f.matches(c.PID, c.Op) {
				continue
			}
			seen += uint64(c.Weight)
			add.thinned = add.thinned || c.Weight > 1
			if !f.hasStack(c.Stack) || !labels.Has(c) {
				continue
			}
			if add.add(c); c.Stack == 0 {
				out.Without += uint64(c.Weight)
			}
		}
		return true
	})
	cover.Thinned, cover.Estimate = cover.Thinned || add.thinned, cover.Estimate || add.thinned
	if errors.Is(err, ErrNoCalls) {
		cover.Missing, err = append(cover.Missing, s.ID), nil
	}
	if every > 0 && err == nil {
		calls, _, err := r.Called(ctx, f)
		if err != nil {
			return nil, cover, err
		}
		out.Share = min(float64(seen)/float64(max(calls, 1)), 1)
	}
	out.Sums = add.all(stacks)
	return out, cover, err
}

// all returns the sums, most time first.
func (s *stackSums) all(stacks *Stacks) (out []StackSum) {
	for _, l := range s.live {
		if sum := s.sums[l.of]; sum != nil {
			sum.Live += l.bytes
		}
	}
	for k, sum := range s.sums {
		sum.Stack, sum.Site = stacks.Stack(k.id), stacks.Site(k.id)
		out = append(out, *sum)
	}
	slices.SortFunc(out, func(a, b StackSum) int {
		return cmp.Or(cmp.Compare(b.Wall, a.Wall), cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Op, b.Op),
			cmp.Compare(a.PID, b.PID), cmp.Compare(a.Site, b.Site), cmp.Compare(a.Function, b.Function))
	})
	return out
}
