package mcp

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"ingero/internal/wire"
)

func whereTool() *tool {
	return &tool{
		name: "where_did_time_go", quiet: true, title: "Where the time of each process went",
		about: "Where the wall time of each traced process went: waiting for the GPU, CPU in CUDA calls, CPU between calls, waiting for a CPU (and which process had it), throttled by a quota, blocked (and on what). The parts of a process add up to 100 %. Use it for 'is it GPU-bound?', 'why is GPU utilization low?', 'what share is data loading?'.",
		facts: []column{{"from", "start of the time range", moment, false}, {"to", "end of the time range", moment, false}},
		columns: []column{
			{"job", "name of the process", words, false}, {"pid", "its process ID (pid)", count, false}, {"part", "part of the time of its threads", words, false}, {"ns", "length of this part, summed over all threads", nanos, false}, {"share", "share of the total time of the process", share, false},
			{"by", "main contributors to this part", words, false},
		},
		register: answers((*server).where),
	}
}

// Where are the arguments of where_did_time_go.
type Where struct {
	When
	PIDs
	Labels
	Form
}

func (s *server) where(ctx context.Context, in *Where) (*answer, error) {
	r, err := s.reportFor(ctx, in.When, in.PIDs, in.Labels)
	if err != nil {
		return nil, err
	}
	a := &answer{facts: []any{stamp(r.From), stamp(r.To)}, notes: r.Notes[:min(len(r.Notes), 2)]}
	for i := range r.Processes {
		p := &r.Processes[i]
		for _, x := range partsOf(p) {
			if x.ns > 0 {
				a.rows = append(a.rows, []any{p.Comm, p.PID, x.name, x.ns, x.percent / 100, byText(x.by, callsIn(p, x.name))})
			}
		}
	}
	if len(a.rows) == 0 {
		a.lead = "unknown: no process has an account of its time in this time range"
	}
	return a, nil
}

// part is a part of a process's time.
type part struct {
	name    string
	ns      uint64
	percent float64
	by      []wire.Share
}

// partsOf returns where the time of a process went: by its threads' ledger, else by its calls and the
// gaps between them.
func partsOf(p *wire.ProcessReport) (out []part) {
	switch {
	case p.Breakdown != nil:
		for _, x := range p.Breakdown.Parts {
			out = append(out, part{x.Name, x.NS, x.Percent, x.By})
		}
	case p.Time != nil:
		for _, x := range p.Time.Parts {
			out = append(out, part{x.Name, x.NS, x.Percent, nil})
		}
	}
	return out
}

// callsIn returns the calls of the part with that name, nil if unknown.
func callsIn(p *wire.ProcessReport, name string) []wire.OpTime {
	if p.Time == nil {
		return nil
	}
	i := slices.IndexFunc(p.Time.Parts, func(x wire.TimePart) bool { return x.Name == name })
	if i < 0 {
		return nil
	}
	return p.Time.Parts[i].Ops
}

// byText names the largest contributors to a part: programs on the CPU, what it waited for, or
// calls.
func byText(by []wire.Share, calls []wire.OpTime) any {
	const most = 3
	ns := column{kind: nanos}
	var out []string
	for i := range by[:min(len(by), most)] {
		b := &by[i]
		what := b.Comm
		switch {
		case b.Agent:
			what = "ingero itself"
		case b.Idle:
			what = "idle CPU waking up"
		case b.Reason != "":
			what = strings.TrimSpace(strings.Join([]string{b.Reason, b.Call, b.Dev, b.Comm}, " "))
			what = strings.Join(strings.Fields(what), " ")
		}
		if b.PID != 0 && !b.Agent {
			what += fmt.Sprintf("[%d]", b.PID)
		}
		out = append(out, what+" "+ns.short(value(b.NS), maxText))
	}
	if len(out) == 0 {
		for _, o := range calls[:min(len(calls), most)] {
			out = append(out, o.Op+" "+ns.short(value(o.NS), maxText))
		}
	}
	if len(out) == 0 {
		return nil
	}
	return strings.Join(out, ", ")
}

func memoryTool() *tool {
	return &tool{
		name: "get_memory", quiet: true, title: "GPU memory by process",
		about: "GPU memory of each process, now and at its peak, from its allocations: leaks, out-of-memory errors, fragmentation. Use it for 'OOM', 'memory grows', 'which process holds the memory?'.",
		facts: []column{{"from", "start of the time range", moment, false}, {"to", "end of the time range", moment, false}},
		columns: []column{
			{"job", "name of the process", words, false}, {"pid", "its process ID (pid)", count, false}, {"gpu_bytes", "GPU memory that it holds", size, false}, {"gpu_peak", "peak of the GPU memory that it held", size, false}, {"blocks", "number of allocations that it holds", count, false},
			{"host_bytes", "pinned host memory that it holds", size, false}, {"allocs", "number of allocations", count, false}, {"frees", "number of frees", count, false}, {"ooms", "number of allocations that failed because memory ran out", count, false},
			{"growth", "growth in bytes per minute", size, false}, {"leak", "memory grows without being freed", flag, false}, {"last_oom", "last failed allocation", words, false}, {"inexact", "why the values may be inexact", words, false},
		},
		register: answers((*server).memory),
	}
}

// Processes are the arguments of get_memory and get_xids.
type Processes struct {
	When
	PIDs
	Form
}

func (s *server) memory(ctx context.Context, in *Processes) (*answer, error) {
	r, err := s.reportFor(ctx, in.When, in.PIDs, Labels{})
	if err != nil {
		return nil, err
	}
	a := &answer{facts: []any{stamp(r.From), stamp(r.To)}}
	for i := range r.Processes {
		p := &r.Processes[i]
		m := p.Memory
		if m == nil {
			continue
		}
		row := []any{p.Comm, p.PID, m.GPUBytes, m.GPUPeak, m.GPUCount, m.HostBytes, m.Allocs, m.Frees, m.OOMs, nil, nil, nil, strings.Join(m.Inexact, ",")}
		if m.Growth != nil {
			row[9], row[10] = int64(m.Growth.PerMinute), m.Growth.Leak
		}
		if o := m.LastOOM; o != nil {
			b := column{kind: size}
			text := fmt.Sprintf("%s of %s at %s, held %s", o.Op, b.short(value(o.Bytes), maxText), o.Time.UTC().Format("2006-01-02 15:04:05"), b.short(value(o.Held), maxText))
			if o.Fragmented {
				text += ", fragmented: the process had held as much before"
			}
			row[11] = text
		}
		a.rows = append(a.rows, row)
	}
	if len(a.rows) == 0 {
		a.lead = "no allocation of GPU memory was recorded in this time range"
	}
	return a, nil
}

func xidsTool() *tool {
	return &tool{
		name: "get_xids", quiet: true, title: "Faults that GPUs reported",
		about: "Faults (XIDs of GPUs, SXids of NVSwitches) that the NVIDIA driver reported: their meaning, the root of each burst, the affected process, what to do. Use it for crashes, 'CUDA error', suspected hardware faults.",
		facts: []column{{"from", "start of the time range", moment, false}, {"to", "end of the time range", moment, false}},
		columns: []column{
			{"time", "time", moment, false}, {"code", "code", count, false}, {"name", "name", words, false}, {"severity", "severity", words, false}, {"pci", "GPU", words, false}, {"gpu_instance", "its MIG instance", count, false}, {"root", "code of the first fault of the burst", count, false},
			{"job", "affected process", words, false}, {"pid", "its process ID (pid)", count, false}, {"meaning", "meaning", words, false}, {"do", "what to do", words, false}, {"message", "the driver's message", words, false}, {"injected", "written by a program, not by the driver", flag, false},
		},
		register: answers((*server).xids),
	}
}

func (s *server) xids(ctx context.Context, in *Processes) (*answer, error) {
	r, err := s.reportFor(ctx, in.When, in.PIDs, Labels{})
	if err != nil {
		return nil, err
	}
	a := &answer{facts: []any{stamp(r.From), stamp(r.To)}}
	if len(r.Xids) == 0 {
		a.lead = "ok, no GPU reported a fault in this time range"
	}
	for i := range r.Xids {
		x := &r.Xids[i]
		var instance any
		if n, ok := x.Instance.Value(); ok {
			instance = n
		}
		a.rows = append(a.rows, []any{stamp(x.Timestamp), x.Code, x.Name, x.Severity, x.PCI, instance, known(int64(x.Root)), x.Comm, known(int64(x.PID)), x.Meaning, x.Do, x.Msg, x.Injected})
	}
	return a, nil
}
