package dashboard

import (
	"cmp"
	"slices"

	"ingero/internal/explain"
	"ingero/internal/query"
	"ingero/internal/wire"
)

func (a *request) stacks() (any, error) {
	sessions, err := a.sessions()
	if err != nil {
		return nil, err
	}
	out := wire.Stacks{Node: a.Node, Stacks: []wire.Stack{}}
	var cover query.Coverage
	for i := range sessions {
		f, _, err := a.filter(&sessions[i])
		if err != nil {
			return nil, err
		}
		sums, without, c, err := a.db.StackSums(a.ctx, f)
		if err != nil {
			return nil, err
		}
		cover.Add(c)
		out.Without += without
		for j := range sums {
			out.Stacks = append(out.Stacks, stackOf(&sums[j], sessions[i].Node))
		}
	}
	slices.SortStableFunc(out.Stacks, func(x, y wire.Stack) int { return cmp.Compare(y.WallNS, x.WallNS) })
	out.More = max(len(out.Stacks)-a.q.Limit, 0)
	out.Stacks = out.Stacks[:min(len(out.Stacks), a.q.Limit)]
	out.Notes = append([]string{}, explain.CoverageNotes(&cover)...)
	return out, nil
}

func stackOf(s *query.StackSum, node string) wire.Stack {
	j := wire.Stack{Site: s.Site, Op: s.Op.String(), Node: node, PID: s.PID, Calls: s.Calls, WallNS: s.Wall, GPUWaitNS: s.GPUWait, RunnableNS: s.Runnable, LiveBytes: s.Live,
		Frames: []wire.Frame{}}
	if s.Stack == nil {
		return j
	}
	j.Cut = s.Stack.Cut
	for i := range s.Stack.Frames {
		f := &s.Stack.Frames[i]
		j.Frames = append(j.Frames, wire.Frame{Func: f.Func, File: f.File, Line: f.Line, Module: f.Module})
	}
	return j
}
