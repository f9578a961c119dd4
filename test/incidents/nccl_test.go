//go:build measure || smoke

package incidents

import (
	"fmt"
	"syscall"
	"time"
)

// twoDevices gives each rank a device of its own.
var twoDevices = []string{"INGERO_SIM_SYNC=block", "INGERO_SIM_DEVICES=2"}

// ranked returns a training loop of two ranks. first and second come before each one's kernels.
func ranked(s *seed, first, second string) victim {
	work := fmt.Sprintf("launch 8 %d; allreduce 1048576; sync; cpu 300", s.between(200, 500))
	return victim{main: first + work, workers: []string{"pin OTHER; " + second + work}, env: twoDevices, prepare: data}
}

// bySecond returns the second rank.
func bySecond(r *run) []int { return r.processes()[1:2] }

// late2 expects the chain of a second rank that is late. The cause of its delay may have another
// chain.
func late2(s *seed, v victim, own []string, begin func(*run) disturber) plan {
	return plan{victim: v, want: []want{{rules: []string{"nccl-straggler"}, culprit: bySecond}}, also: own, faults: during(s, short, long, begin)}
}

// untilTheEnd returns the time from a fault to the end.
func untilTheEnd(r *run) lost {
	d := time.Duration(r.until - r.times[0].From)
	return lost{Min: d - 150*ms, Mid: d, Max: d + 150*ms}
}

// kills is a fault that kills the second rank.
func kills(r *run) disturber {
	pid := r.processes()[1]
	_ = syscall.Kill(pid, syscall.SIGKILL)
	return disturber{pids: []int{pid}}
}

var ncclRows = []row{
	{name: "a rank with a hog on its core", alone: true, plan: func(s *seed) plan {
		work := fmt.Sprintf("cpu %d; ", s.between(8000, 12000))
		p := late2(s, ranked(s, work, work), []string{"cpu-taken"}, program(1, "hog OTHER"))
		p.anywhere = true
		return p
	}},
	{name: "a rank with a slower GPU", alone: true, plan: func(s *seed) plan {
		slow := fmt.Sprintf("~launch 4 500; !launch 4 %d; sync; ", s.between(2000, 4000))
		return late2(s, ranked(s, "launch 4 500; sync; ", slow), []string{"gpu-slower"}, inside)
	}},
	{name: "a rank that loads its data slowly", alone: true, plan: func(s *seed) plan {
		return late2(s, ranked(s, "cached 262144; ", fmt.Sprintf("~cached 262144; !read %d; ", s.between(4, 8)<<20)), []string{"disk-wait"}, inside)
	}},
	{name: "a rank that sleeps", alone: true, plan: func(s *seed) plan {
		return late2(s, ranked(s, "", fmt.Sprintf("!sleep %d; ", s.between(6000, 15000))), []string{"own-code"}, inside)
	}},
	{name: "a rank that waits for a pipe", alone: true, plan: func(s *seed) plan {
		return plan{victim: ranked(s, "", "!pipe; "), want: []want{{rules: []string{"nccl-missing"}, culprit: bySecond}}, length: 7 * time.Second,
			faults: during(s, 2200*ms, 3200*ms, inside)}
	}},
	{name: "a rank that is killed", alone: true, plan: func(s *seed) plan {
		return plan{victim: ranked(s, "", ""), want: []want{{rules: []string{"nccl-dead"}, culprit: bySecond, lost: untilTheEnd}},
			faults: []fault{{from: s.span(1500*ms, 2500*ms), begin: kills}}}
	}},
	{name: "two ranks", alone: true, plan: func(s *seed) plan { return plan{victim: ranked(s, "", "")} }},
	{name: "two ranks, one of which is always later", alone: true, plan: func(s *seed) plan {
		return plan{victim: ranked(s, "", fmt.Sprintf("sleep %d; ", s.between(2000, 6000)))}
	}},
}
