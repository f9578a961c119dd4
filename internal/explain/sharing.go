package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"ingero/internal/wire"
)

// concurrent returns the processes with calls that overlap in time.
func concurrent(ps []wire.ProcessReport) []uint32 {
	var out []uint32
	for i := range ps {
		a := &ps[i]
		for j := range ps {
			b := &ps[j]
			if i != j && a.Calls > 0 && b.Calls > 0 && overlap(a, b) {
				out = append(out, a.PID)
				break
			}
		}
	}
	return out
}

func overlap(a, b *wire.ProcessReport) bool {
	before := func(end, start time.Time) bool { return !end.IsZero() && !end.After(start) }
	return !before(a.To, b.From) && !before(b.To, a.From)
}

// usesGPU returns the GPU that a process uses, or "" if it is uncertain. Containers and batch jobs may
// have their own GPU numbers.
func usesGPU(in *Input, p *wire.ProcessReport) string {
	if in.GPUs == 1 {
		return "the GPU"
	}
	for i := range in.Processes {
		x := &in.Processes[i]
		if x.PID == p.PID && x.Runtime == "" && x.Job == "" && x.Devices != "" && x.Devices != "none" && !strings.Contains(x.Devices, ",") {
			return "GPU " + clean(x.Devices)
		}
	}
	return ""
}

// sharing returns warnings about processes that used one GPU at the same time, or may have.
func sharing(in *Input, r *report) (notes []string) {
	on := map[string][]*wire.ProcessReport{}
	var gpus []string
	for i := range r.Processes {
		p := &r.Processes[i]
		if !slices.Contains(r.Concurrent, p.PID) {
			continue
		}
		gpu := usesGPU(in, p)
		if on[gpu] == nil {
			gpus = append(gpus, gpu)
		}
		on[gpu] = append(on[gpu], p)
	}
	for _, gpu := range gpus {
		all := on[gpu]
		switch n := uint64(len(all)); {
		case gpu != "" && n > 1:
			notes = append(notes, fmt.Sprintf("Multi-process GPU contention: %s share %s: %s. Each waits for the others' work, too.", plural(n, "process"), gpu, names(all)))
		case gpu == "" && len(r.Concurrent) > 1:
			all = nil
			for i := range r.Processes {
				if slices.Contains(r.Concurrent, r.Processes[i].PID) {
					all = append(all, &r.Processes[i])
				}
			}
			notes = append(notes, fmt.Sprintf("%s used CUDA at the same time: %s. On one GPU each waits for the others' work too; which GPU they use is not recorded.",
				plural(uint64(len(all)), "process"), names(all)))
		}
	}
	return notes
}

// names lists some processes, and the number of the others.
func names(all []*wire.ProcessReport) string {
	const most = 4
	var out []string
	for _, p := range all[:min(most, len(all))] {
		out = append(out, processName(p.Comm, p.PID))
	}
	s := strings.Join(out, ", ")
	if more := len(all) - most; more > 0 {
		s += fmt.Sprintf(" and %d more", more)
	}
	return s
}
