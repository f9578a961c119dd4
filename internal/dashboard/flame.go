package dashboard

import (
	"cmp"
	"fmt"
	"slices"

	"ingero/internal/explain"
	"ingero/internal/query"
	"ingero/internal/symbols"
	"ingero/internal/wire"
	"ingero/pkg/events"
)

// tree is a call tree under construction.
type tree map[nodeKey]*wire.FlameNode

type nodeKey struct {
	parent                   *wire.FlameNode
	kind, name, file, module string
	line                     int32
	pid                      uint32
}

// flames are the measures of trees; the first is the default.
var flames = []struct {
	name, unit string
	of         func(*query.StackSum) uint64
}{
	{"time", "ns", func(s *query.StackSum) uint64 { return s.Wall }},
	{"gpu_wait", "ns", func(s *query.StackSum) uint64 { return s.GPUWait }},
	{"runnable", "ns", func(s *query.StackSum) uint64 { return s.Runnable }},
	{"calls", "calls", func(s *query.StackSum) uint64 { return s.Calls }},
	{flameMemory, "bytes", func(s *query.StackSum) uint64 { return s.Live }},
}

const (
	flameMemory = "memory"
	flameCalls  = 1 << 18 // calls to read
	memoryCalls = 1 << 19 // calls to read for live memory
	flameDeep   = 256     // maximum depth shown
)

func (a *request) flame() (any, error) {
	kind := &flames[a.q.Flame]
	sessions, err := a.sessions()
	if err != nil {
		return nil, err
	}
	out := wire.Flame{Scope: a.about(), What: kind.name, Unit: kind.unit, Sampled: 1, Root: wire.FlameNode{Name: "all"}, Notes: []string{}}
	var cover query.Coverage
	nodes := tree{}
	for i := range sessions {
		f, comms, err := a.filter(&sessions[i])
		if err != nil {
			return nil, err
		}
		if kind.name == flameMemory {
			if f, err = a.allocating(&sessions[i], f, &out.Notes); err != nil {
				return nil, err
			}
		}
		most := uint64(flameCalls)
		if kind.name == flameMemory {
			most = 2 * memoryCalls // all of it: the number was only estimated
		}
		x, c, err := a.db.StackSample(a.ctx, f, most)
		if err != nil {
			return nil, err
		}
		cover.Add(c)
		out.Sampled = min(out.Sampled, x.Share)
		if x.Share <= 0 {
			continue
		}
		scaled := func(v uint64) uint64 { return uint64(float64(v) / x.Share) }
		out.Without += scaled(x.Without)
		for j := range x.Sums {
			if v := kind.of(&x.Sums[j]); v > 0 {
				nodes.add(&out.Root, &x.Sums[j], comms[x.Sums[j].PID], scaled(v))
			}
		}
	}
	out.Total = out.Root.Value
	out.Nodes, out.Cut = bound(&out.Root, a.q.Limit)
	out.Notes = append(out.Notes, explain.CoverageNotes(&cover)...)
	return out, nil
}

// allocating returns the window in which memory was allocated that is live at the end of the
// question's window: from the recording's start, or as far back as the limit on calls allows.
func (a *request) allocating(s *query.Session, f query.Filter, notes *[]string) (query.Filter, error) {
	f.From = s.Started
	n, known, err := a.db.Called(a.ctx, f)
	if err != nil || !known || n <= memoryCalls {
		return f, err
	}
	lo, hi := f.From, f.To
	if end := s.Updated.Add(1); hi.After(end) {
		hi = end
	}
	last := hi
	for range 20 { // halve it until few enough calls remain
		f.From = lo.Add(hi.Sub(lo) / 2)
		if n, _, err = a.db.Called(a.ctx, f); err != nil {
			return f, err
		}
		if n > memoryCalls {
			lo = f.From
		} else {
			hi = f.From
		}
	}
	f.From = hi
	*notes = append(*notes, fmt.Sprintf("Memory allocated more than %s before the end is left out: there are too many calls.", explain.Duration(int64(last.Sub(hi)))))
	return f, nil
}

// add adds a value at the end of a stack.
func (t tree) add(n *wire.FlameNode, s *query.StackSum, comm string, v uint64) {
	n.Value += v
	n = t.child(n, wire.FlameNode{Name: explain.Clean(comm), Kind: "process", PID: s.PID}, v)
	frames := []events.Frame{}
	if s.Stack != nil {
		frames = s.Stack.Frames
	}
	switch {
	case s.Stack == nil:
		n = t.child(n, wire.FlameNode{Name: "stack not known", Kind: "gap"}, v)
	case s.Stack.Cut || len(frames) > flameDeep:
		n = t.child(n, wire.FlameNode{Name: "stack truncated", Kind: "gap"}, v)
	}
	frames = frames[:min(len(frames), flameDeep)]
	first := 0
	if len(frames) > 0 && frames[0].Kind == events.FrameNative { // the traced function, which is the operation
		first = 1
	}
	for i := len(frames) - 1; i >= first; i-- {
		f := &frames[i]
		name := f.Func
		if name == "" {
			name = f.Place()
		}
		n = t.child(n, wire.FlameNode{Name: explain.Clean(name), Kind: frameKinds[f.Kind], File: explain.Clean(f.File), Line: f.Line, Module: explain.Clean(f.Module)}, v)
	}
	n = t.child(n, wire.FlameNode{Name: s.Op.String(), Kind: "op"}, v)
	if s.Function != "" {
		n = t.child(n, wire.FlameNode{Name: explain.Clean(symbols.Demangle(s.Function)), Kind: "gpu"}, v)
	}
	n.Self += v
}

// frameKinds are the kinds of frames in answers.
var frameKinds = map[events.FrameKind]string{events.FrameNative: "native", events.FramePython: "python", events.FrameGPU: "gpu", events.FrameGap: "gap"}

// child adds a value to the child of n that equals x.
func (t tree) child(n *wire.FlameNode, x wire.FlameNode, v uint64) *wire.FlameNode {
	k := nodeKey{n, x.Kind, x.Name, x.File, x.Module, x.Line, x.PID}
	c := t[k]
	if c == nil {
		c = &x
		t[k], n.Children = c, append(n.Children, c)
	}
	c.Value += v
	return c
}

// bound sorts the tree and removes the smallest nodes until at most most remain. No remaining node
// is smaller than a removed one.
func bound(n *wire.FlameNode, most int) (nodes, cut int) {
	var all []uint64
	walk(n, func(x *wire.FlameNode) { all = append(all, x.Value) })
	least := uint64(0)
	if len(all) > most {
		slices.SortFunc(all, func(a, b uint64) int { return cmp.Compare(b, a) })
		least = all[most] + 1
	}
	trim(n, least)
	walk(n, func(*wire.FlameNode) { nodes++ })
	return nodes, len(all) - nodes
}

func walk(n *wire.FlameNode, visit func(*wire.FlameNode)) {
	visit(n)
	for _, c := range n.Children {
		walk(c, visit)
	}
}

// trim removes nodes below least.
func trim(n *wire.FlameNode, least uint64) {
	n.Children = slices.DeleteFunc(n.Children, func(c *wire.FlameNode) bool {
		if c.Value < least {
			n.Self += c.Value
		}
		return c.Value < least
	})
	slices.SortFunc(n.Children, func(a, b *wire.FlameNode) int {
		return cmp.Or(cmp.Compare(b.Value, a.Value), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Line, b.Line), cmp.Compare(a.PID, b.PID))
	})
	for _, c := range n.Children {
		trim(c, least)
	}
}
