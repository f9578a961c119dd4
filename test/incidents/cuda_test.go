//go:build measure || smoke

package incidents

import (
	"fmt"
	"ingero/test/tapes"
	"strconv"
	"time"
)

// loop runs the simulated program loop with a CUDA fault, which the lab switches on and off.
func loop(fault string, args ...string) func(*run) []string {
	return func(r *run) []string {
		out := []string{r.lab.stack.Program("loop"), "--fault", fault, "--hold", "--seconds", "120", "--pin", strconv.Itoa(r.cpu), "--log", r.log}
		return append(out, thinnedArgs(args)...)
	}
}

// sizes returns options: a seed's kernel length, CPU time per step, launches per step, and number.
func sizes(s *seed) []string {
	return []string{"--kernel-us", fmt.Sprint(s.between(100, 300)), "--cpu-us", fmt.Sprint(s.between(100, 400)),
		"--launches", fmt.Sprint(s.between(8, 14)), "--seed", fmt.Sprint(s.number)}
}

// faulty returns a scenario of the loop: the fault lasts for a while, and rule must name it.
func faulty(rule, kind string, args func(s *seed) []string) func(s *seed) plan {
	return func(s *seed) plan {
		from := s.span(1200*ms, 1800*ms)
		return plan{
			victim: victim{program: loop(kind, append(sizes(s), args(s)...)...), env: one(s, spins, blocks)},
			faults: []fault{{from: from, to: from + s.span(2500*ms, 3200*ms), begin: inside}},
			want:   []want{{rules: []string{rule}}},
		}
	}
}

// sound returns the twin of a scenario: the same work without the fault.
func sound(fault string, args func(s *seed) []string) func(s *seed) plan {
	return func(s *seed) plan {
		return plan{victim: victim{program: loop(fault, append(append(sizes(s), args(s)...), "--healthy")...), env: one(s, spins, blocks)}}
	}
}

// from makes the fault last from the first call on, with truth as the loss.
func (p plan) from(truth func(r *run) lost) plan {
	p.faults = []fault{{begin: inside}}
	p.want[0].lost = truth
	return p
}

func nothing(*seed) []string { return nil }

// every returns options: how often the fault occurs (a to b), and how long it takes (delayA to
// delayB).
func every(a, b, delayA, delayB int) func(s *seed) []string {
	return func(s *seed) []string {
		out := []string{"--every", fmt.Sprint(s.between(a, b))}
		if delayB > 0 {
			out = append(out, "--delay-us", fmt.Sprint(s.between(delayA, delayB)))
		}
		return out
	}
}

func batch(a, b int) func(s *seed) []string {
	return func(s *seed) []string { return []string{"--batch", fmt.Sprint(s.between(a, b) << 20)} }
}

// firstSteps returns how much longer the first steps took than the others: the cost of a start.
func firstSteps(r *run) lost {
	steps := r.clock.steps()
	normal := r.normal(steps)[0].mean
	var sum float64
	for i := range steps[:min(3, len(steps))] {
		sum += float64(steps[i].End-steps[i].Begin) - normal
	}
	d := time.Duration(sum)
	return lost{Min: d * 9 / 10, Mid: d, Max: d * 11 / 10}
}

// allAfter returns the time since the first of the slow steps at the end. No work was done in
// them.
func allAfter(r *run) lost {
	steps := r.clock.steps()
	first := len(steps)
	for first > 0 && time.Duration(steps[first-1].End-steps[first-1].Begin) > 40*ms {
		first--
	}
	if first == len(steps) {
		return lost{}
	}
	d := time.Duration(r.until - steps[first].Begin)
	return lost{Min: d - 1200*ms, Mid: d, Max: d + 100*ms}
}

// unknown is the loss of faults without measurable cost: the lost time is not judged.
func unknown(*run) lost { return lost{Max: tapes.Unclocked} }

// costless marks the rows' faults as wrong but nearly free.
func costless(rows []row) []row {
	before := rows[0].plan
	rows[0].plan = func(s *seed) plan {
		p := before(s)
		p.want[0].lost = unknown
		return p
	}
	return rows
}

// twins returns the rows of a fault and of its twin without the fault.
func twins(name, rule, fault string, args func(s *seed) []string) []row {
	return []row{{name: name, plan: faulty(rule, fault, args)}, {name: name + ": as it should be", plan: sound(fault, args)}}
}

func joined(all ...[]row) (out []row) {
	for _, rows := range all {
		out = append(out, rows...)
	}
	return out
}

// lasting makes the rows' fault last to the end.
func lasting(rows []row) []row {
	before := rows[0].plan
	rows[0].plan = func(s *seed) plan {
		p := before(s)
		p.faults[0].to = 0
		return p
	}
	return rows
}

// lockRows run a thread of the victim on the same CPU, so a chain for the CPU time that it takes is
// true as well.
var lockRows = func() []row {
	rows := twins("the driver's lock is held by another thread", "lock-wait", "driver-lock", every(40, 70, 15000, 30000))
	before := rows[0].plan
	rows[0].plan = func(s *seed) plan {
		p := before(s)
		p.want[0].culprit, p.want[0].with = byItself, []string{"own-threads"}
		return p
	}
	return rows
}()

var cudaRows = joined(
	twins("slow cudaMalloc, now and then", "alloc-slow", "alloc-slow", every(15, 30, 15000, 35000)),
	twins("an allocation storm", "alloc-storm", "alloc-storm", every(1, 1, 30, 60)),
	costless(lasting(twins("a leak", "memory-leak", "leak", every(8, 12, 6000, 10000)))),
	twins("an allocation fails for fragmentation", "gpu-fragmentation", "fragments", every(150, 220, 40000, 80000)),
	twins("the GPU is out of memory", "gpu-oom", "oom", every(40, 60, 15000, 30000)),
	twins("a full KV cache", "kv-cache-pressure", "kv-cache", every(4, 6, 0, 0)),
	twins("two models take turns", "model-swap", "model-swap", every(50, 80, 0, 0)),
	twins("pageable copies", "copy-pageable", "pageable", batch(8, 12)),
	twins("many small copies", "copies-small", "small-copies", batch(2, 4)),
	twins("copies take 40 % of the time", "copy-heavy", "copy-heavy", batch(10, 14)),
	twins("synchronise after each launch", "sync-heavy", "sync-heavy", func(s *seed) []string {
		return []string{"--launches", "100", "--kernel-us", "15", "--dispatch-us", fmt.Sprint(s.between(10, 14))}
	}),
	twins("cudaFree that waits for the GPU", "free-waits", "free-waits", every(1, 1, 800, 1500)),
	lockRows,
	costless(twins("CUDA after fork", "cuda-after-fork", "fork", every(80, 120, 0, 0))),
	[]row{
		{name: "a cold start", plan: func(s *seed) plan {
			return faulty("cold-start", "cold-start", every(1, 1, 250000, 500000))(s).from(firstSteps)
		}},
		{name: "a warm start", plan: sound("cold-start", nothing)},
		{name: "the driver does not fit", plan: func(s *seed) plan {
			return faulty("version-mismatch", one(s, "mismatch-803", "mismatch-35"), nothing)(s).from(allAfter)
		}},
		{name: "a device assert", plan: func(s *seed) plan {
			return faulty("device-assert", "assert", every(300, 600, 0, 0))(s).from(allAfter)
		}},
	},
)
