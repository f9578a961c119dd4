package dashboard

import (
	"cmp"
	"slices"

	"ingero/internal/explain"
	"ingero/internal/query"
)

// stackJSON sums up one operation's calls with one stack. Sampled stacks stand for the omitted
// calls.
type stackJSON struct {
	Site       string      `json:"site,omitempty"` // program location
	Op         string      `json:"op"`
	Node       string      `json:"node"`
	PID        uint32      `json:"pid"`
	Calls      uint64      `json:"calls"`
	WallNS     uint64      `json:"wall_ns"`
	GPUWaitNS  uint64      `json:"gpu_wait_ns"`
	RunnableNS uint64      `json:"runnable_ns"`
	LiveBytes  uint64      `json:"live_bytes"`    // allocated and not freed
	Frames     []frameJSON `json:"frames"`        // innermost first
	Cut        bool        `json:"cut,omitempty"` // the outermost are missing
}

type frameJSON struct {
	Func   string `json:"func,omitempty"`
	File   string `json:"file,omitempty"`
	Line   int32  `json:"line,omitempty"`
	Module string `json:"module,omitempty"` // for native code
}

func (a *request) stacks() (any, error) {
	sessions, err := a.sessions()
	if err != nil {
		return nil, err
	}
	out := struct {
		Node    string      `json:"node"`
		Without uint64      `json:"without"` // calls without a stack
		Stacks  []stackJSON `json:"stacks"`  // most time first
		Notes   []string    `json:"notes"`
	}{Node: a.Node, Stacks: []stackJSON{}}
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
	slices.SortStableFunc(out.Stacks, func(x, y stackJSON) int { return cmp.Compare(y.WallNS, x.WallNS) })
	out.Stacks = out.Stacks[:min(len(out.Stacks), a.q.Limit)]
	out.Notes = append([]string{}, explain.CoverageNotes(&cover)...)
	return out, nil
}

func stackOf(s *query.StackSum, node string) stackJSON {
	j := stackJSON{Site: s.Site, Op: s.Op.String(), Node: node, PID: s.PID, Calls: s.Calls, WallNS: s.Wall, GPUWaitNS: s.GPUWait, RunnableNS: s.Runnable, LiveBytes: s.Live,
		Frames: []frameJSON{}}
	if s.Stack == nil {
		return j
	}
	j.Cut = s.Stack.Cut
	for i := range s.Stack.Frames {
		f := &s.Stack.Frames[i]
		j.Frames = append(j.Frames, frameJSON{f.Func, f.File, f.Line, f.Module})
	}
	return j
}
