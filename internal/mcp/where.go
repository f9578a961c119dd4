package mcp

import (
	"context"
	"fmt"
	"strings"
)

func whereTool() *tool {
	return &tool{
		name: "where_did_time_go", quiet: true, title: "Where the time of each process went",
		about: "Where the wall time of each traced process went: waiting for the GPU, CPU in CUDA calls, CPU between calls, waiting for a CPU (and who had it), throttled by a quota, blocked (and on what). The parts of a process add up to 100 %. Use it for 'is it GPU-bound?', 'why is GPU utilisation low?', 'what share is data loading?'.",
		facts: []column{{"from", "looked at from", moment, false}, {"to", "to", moment, false}},
		columns: []column{
			{"job", "name of the process", words, false}, {"pid", "its process number (pid)", count, false}, {"part", "part of the time of its threads", words, false}, {"ns", "how long that was, of all threads together", nanos, false}, {"share", "share of all the time of the process", share, false},
			{"by", "what or who most of this part is due to", words, false},
		},
		register: answers((*server).where),
	}
}

// Where are the arguments of where_did_time_go and get_memory.
type Where struct {
	When
	PIDs
	Form
}

func (s *server) where(ctx context.Context, in *Where) (*answer, error) {
	r, err := s.reportOf(ctx, in.When, in.PIDs)
	if err != nil {
		return nil, err
	}
	a := &answer{facts: []any{stamp(r.From), stamp(r.To)}, notes: r.Notes[:min(len(r.Notes), 2)]}
	for i := range r.Processes {
		p := &r.Processes[i]
		parts := p.parts()
		for j := range parts {
			x := &parts[j]
			if x.NS > 0 {
				a.rows = append(a.rows, []any{p.Comm, p.PID, x.Name, x.NS, x.Percent / 100, x.byText(p.calls(x.Name))})
			}
		}
	}
	if len(a.rows) == 0 {
		a.lead = "not known: no process has an account of its time there"
	}
	return a, nil
}

// parts returns where its time went: by its threads' ledger, else by its calls and the gaps between
// them.
func (p *process) parts() []part {
	switch {
	case p.Breakdown != nil:
		return p.Breakdown.Parts
	case p.Time != nil:
		return p.Time.Parts
	}
	return nil
}

// calls returns the part with that name by calls, nil if unknown.
func (p *process) calls(name string) *part {
	if p.Time == nil {
		return nil
	}
	for i := range p.Time.Parts {
		if p.Time.Parts[i].Name == name {
			return &p.Time.Parts[i]
		}
	}
	return nil
}

// byText names the largest contributors to a part: programs on the CPU, what it waited for, or
// calls.
func (p *part) byText(calls *part) any {
	const most = 3
	ns := column{kind: nanos}
	var out []string
	for i := range p.By[:min(len(p.By), most)] {
		b := &p.By[i]
		what := b.Comm
		switch {
		case b.Agent:
			what = "ingero itself"
		case b.Idle:
			what = "wake-up of an idle CPU"
		case b.Reason != "":
			what = strings.TrimSpace(strings.Join([]string{b.Reason, b.Syscall, b.Dev, b.Comm}, " "))
			what = strings.Join(strings.Fields(what), " ")
		}
		if b.PID != 0 && !b.Agent {
			what += fmt.Sprintf("[%d]", b.PID)
		}
		out = append(out, what+" "+ns.short(b.NS, maxText))
	}
	if len(out) == 0 && calls != nil {
		for _, o := range calls.Ops[:min(len(calls.Ops), most)] {
			out = append(out, o.Op+" "+ns.short(o.NS, maxText))
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
		about: "What each process holds and held at most on the GPU, by its allocations: leaks, out-of-memory errors, fragmentation. Use it for 'OOM', 'memory grows', 'who holds the memory?'.",
		facts: []column{{"from", "looked at from", moment, false}, {"to", "to", moment, false}},
		columns: []column{
			{"job", "name of the process", words, false}, {"pid", "its process number (pid)", count, false}, {"gpu_bytes", "held on the GPU", size, false}, {"gpu_peak", "most that it held", size, false}, {"blocks", "allocations that it holds", count, false},
			{"host_bytes", "pinned memory of the host", size, false}, {"allocs", "allocations", count, false}, {"frees", "frees", count, false}, {"ooms", "allocations that failed for want of memory", count, false},
			{"growth", "bytes a minute by which it grows", size, false}, {"leak", "it grows and nothing is freed", flag, false}, {"last_oom", "the last that failed", words, false}, {"inexact", "why it may be off", words, false},
		},
		register: answers((*server).memory),
	}
}

func (s *server) memory(ctx context.Context, in *Where) (*answer, error) {
	r, err := s.reportOf(ctx, in.When, in.PIDs)
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
			text := fmt.Sprintf("%s of %s at %s, held %s", o.Op, b.short(o.Bytes, maxText), o.Time.UTC().Format("15:04:05"), b.short(o.Held, maxText))
			if o.Fragmented {
				text += ", fragmented: as much had been held before"
			}
			row[11] = text
		}
		a.rows = append(a.rows, row)
	}
	if len(a.rows) == 0 {
		a.lead = "no process has allocated GPU memory there, or it is not known"
	}
	return a, nil
}

func xidsTool() *tool {
	return &tool{
		name: "get_xids", quiet: true, title: "Faults that GPUs reported",
		about: "Faults (XIDs of GPUs, SXids of NVSwitches) that the NVIDIA driver reported: what each means, which was the root of its burst, the process it hit, what to do. Use it for crashes, 'CUDA error', hardware doubts.",
		facts: []column{{"from", "looked at from", moment, false}, {"to", "to", moment, false}},
		columns: []column{
			{"time", "time", moment, false}, {"code", "code", count, false}, {"name", "name", words, false}, {"severity", "severity", words, false}, {"pci", "GPU", words, false}, {"gpu_instance", "its MIG instance", count, false}, {"root", "code of the first fault of the burst", count, false},
			{"job", "process that it hit", words, false}, {"pid", "its number", count, false}, {"meaning", "meaning", words, false}, {"do", "what to do", words, false}, {"message", "the driver's message", words, false}, {"injected", "written by a program, not by the driver", flag, false},
		},
		register: answers((*server).xids),
	}
}

// instance returns a MIG instance's number, nil if none is given.
func instance(n *uint32) any {
	if n == nil {
		return nil
	}
	return *n
}

func (s *server) xids(ctx context.Context, in *Where) (*answer, error) {
	r, err := s.reportOf(ctx, in.When, in.PIDs)
	if err != nil {
		return nil, err
	}
	a := &answer{facts: []any{stamp(r.From), stamp(r.To)}}
	if len(r.Xids) == 0 {
		a.lead = "ok, no GPU reported a fault there"
	}
	for i := range r.Xids {
		x := &r.Xids[i]
		a.rows = append(a.rows, []any{stamp(x.Timestamp), x.Code, x.Name, x.Severity, x.PCI, instance(x.Instance), known(int64(x.Root)), x.Comm, known(int64(x.PID)), x.Meaning, x.Do, x.Msg, x.Injected})
	}
	return a, nil
}
