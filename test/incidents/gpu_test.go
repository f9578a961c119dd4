//go:build measure || smoke

package incidents

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"ingero/internal/testkit"
)

// slows returns a training loop whose kernels take longer during the fault.
func slows(s *seed, env ...string) victim {
	us := s.between(300, 600)
	return victim{main: fmt.Sprintf("copy 262144; ~launch 20 %d; !launch 20 %d; sync; cpu 300", us, us*s.between(130, 200)/100), env: append(env, one(s, spins, blocks)...)}
}

// shares makes the processes of a run share their devices.
func shares(r *run) { r.env = append(r.env, "INGERO_SIM_SHARE="+filepath.Join(r.dir, "share")) }

// neighbour returns a training loop and another process, which launches during the fault, on the
// same device or another.
func neighbour(s *seed, device int) victim {
	return victim{main: fmt.Sprintf("copy 262144; launch 20 %d; sync; cpu 300", s.between(300, 600)), prepare: shares,
		workers: []string{fmt.Sprintf("pin OTHER; device %d; ~sleep 10000; !launch 10 %d; !sync", device, s.between(200, 400))},
		env:     []string{"INGERO_SIM_SYNC=block", "INGERO_SIM_DEVICES=2"}}
}

// smi provides an nvidia-smi that shows one GPU, whose clocks are low for the reason in the file
// "why".
func smi(why string) func(r *run) {
	return func(r *run) {
		r.t.Helper()
		root := r.t.TempDir()
		for name, text := range map[string]string{
			"proc/driver/nvidia/version": "580\n",
			"why":                        why,
			"usr/bin/nvidia-smi":         fmt.Sprintf(smiScript, root),
		} {
			path := filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				r.t.Fatal(err)
			}
			testkit.WriteProgram(r.t, path, []byte(text))
		}
		r.machine.Root = root
	}
}

// throttles is a fault that lowers the clocks because of heat, so kernels take longer.
func throttles(r *run) disturber {
	set := func(why string) { _ = os.WriteFile(filepath.Join(r.machine.Root, "why"), []byte(why), 0o644) }
	set("heat")
	d := inside(r)
	end := d.end
	d.end = func() { end(); set("well") }
	return d
}

// smiScript is an nvidia-smi that shows the state in the file "why": normal, idle, or hot, with
// halved clocks.
const smiScript = `#!/bin/sh
while :; do
	clock=1980 why=0x0000000000000000
	case $(cat %[1]s/why) in
	heat) clock=990 why=0x0000000000000040 ;;
	idle) clock=345 why=0x0000000000000001 ;;
	esac
	echo "00000000:75:00.0, 0, GPU-51515151, Disabled, 16384, 100, 98, 41, $clock, 3201, 1980, 61, 300.00, 700.00, $why, 0, 0, NVIDIA H200"
	sleep 0.3
done
`

var gpuRows = []row{
	{name: "longer kernels", plan: func(s *seed) plan {
		return plan{victim: slows(s), want: cause("gpu-slower"), faults: during(s, short, long, inside)}
	}},
	{name: "clocks that heat lowers", plan: func(s *seed) plan {
		v := slows(s)
		v.prepare = smi("well")
		return plan{victim: v, want: cause("gpu-throttled"), faults: during(s, long, 3500*ms, throttles), length: 7 * time.Second}
	}},
	{name: "another process on the GPU", alone: true, plan: func(s *seed) plan {
		return plan{victim: neighbour(s, 0), want: []want{{rules: []string{"gpu-shared"}, culprit: bySecond}}, faults: during(s, short, long, inside)}
	}},
	{name: "a full launch queue", plan: func(s *seed) plan {
		return plan{victim: victim{main: fmt.Sprintf("~launch 2500 4; !launch 2500 %d; sync", s.between(40, 60)), env: one(s, spins, blocks)},
			want: cause("gpu-behind", "gpu-slower"), also: []string{"gpu-slower", "gpu-behind"}, faults: during(s, short, long, inside)}
	}},
	{name: "another process on another GPU", alone: true, plan: func(s *seed) plan {
		return plan{victim: neighbour(s, 1), faults: during(s, short, long, inside)}
	}},
	{name: "clocks that are low for want of work", plan: func(s *seed) plan {
		return plan{victim: victim{main: "sleep 15000; copy 65536; launch 8 300; back 16384", env: blocks, prepare: smi("idle")}}
	}},
}
