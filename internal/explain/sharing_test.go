package explain

import (
	"strings"
	"testing"
	"time"
)

// Processes that share a GPU, or may share one, get a warning; processes on different GPUs do not.
func TestSharing(t *testing.T) {
	for name, tt := range map[string]struct {
		gpus    int
		visible [2]string
		runtime string
		apart   bool // one after the other
		want    string
	}{
		"one GPU in all":          {gpus: 1, want: "Multi-process GPU contention: 2 processes share the GPU: python3 (4821), python3 (4822). Each waits for the others' work, too."},
		"the same is visible":     {gpus: 8, visible: [2]string{"3", "3"}, want: "Multi-process GPU contention: 2 processes share GPU 3: "},
		"others are visible":      {gpus: 8, visible: [2]string{"3", "4"}},
		"several are visible":     {gpus: 8, visible: [2]string{"3,4", "3,4"}, want: "2 processes used CUDA at the same time: python3 (4821), python3 (4822). On one GPU"},
		"numbers of a container":  {gpus: 8, visible: [2]string{"0", "0"}, runtime: "docker", want: "which GPU they use is not recorded"},
		"nothing is known":        {want: "which GPU they use is not recorded"},
		"one after the other":     {gpus: 1, apart: true},
		"one of them is not sure": {gpus: 8, visible: [2]string{"3", ""}, want: "which GPU they use is not recorded"},
	} {
		t.Run(name, func(t *testing.T) {
			m := train(4821, 3)
			m.train(4822, 3)
			in := input(m, 4821, 4822)
			in.GPUs = tt.gpus
			for i := range in.Processes {
				in.Processes[i].Devices, in.Processes[i].Runtime = tt.visible[i], tt.runtime
			}
			if tt.apart {
				in.Processes[0].Ended = start.Add(10 * time.Second)
				in.Processes[1].Attached = start.Add(20 * time.Second)
			}
			r := build(in)
			got := strings.Join(r.Notes, "\n")
			if !strings.Contains(got, tt.want) || tt.want == "" && got != "" {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
