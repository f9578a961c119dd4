package check

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"ingero/internal/testkit"
)

// Each fact about a process is reported with its source.
func TestIdentity(t *testing.T) {
	for _, tt := range []struct {
		name string
		env  []string
		want map[string][2]string // value, and a part of the note, by ID
	}{
		{"alone", nil, map[string][2]string{"program": {"sleep", "from its command line: sleep 600"}, "rank": {"none", "no rank"}}},
		{"torchrun", []string{"RANK=3", "LOCAL_RANK=1", "WORLD_SIZE=8", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=10.0.0.1", "MASTER_PORT=29500"}, map[string][2]string{
			"rank": {"3", "RANK"}, "world_size": {"8", "WORLD_SIZE"}, "local_rank": {"1", "LOCAL_RANK"}, "launcher": {"torchrun or compatible", "RANK"}, "master": {"10.0.0.1:29500", "MASTER_ADDR, MASTER_PORT"},
		}},
		{"Open MPI", []string{"OMPI_COMM_WORLD_RANK=5", "OMPI_COMM_WORLD_SIZE=16"}, map[string][2]string{
			"rank": {"5", "from OMPI_COMM_WORLD_RANK in its environment"}, "launcher": {"Open MPI", "OMPI_COMM_WORLD_RANK"},
		}},
		{"Slurm", []string{"SLURM_JOB_ID=4711", "SLURM_STEP_ID=0", "SLURM_PROCID=2"}, map[string][2]string{
			"rank": {"2", "from SLURM_PROCID"}, "job": {"4711", "from SLURM_JOB_ID in its environment"}, "step": {"0", "SLURM_STEP_ID"}, "launcher": {"Slurm (srun)", "SLURM_PROCID"},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := exec.Command("sleep", "600")
			c.Env = append([]string{"PATH=" + os.Getenv("PATH")}, tt.env...)
			r := look(t, testkit.Start(t, c))
			for id, want := range tt.want {
				if l := line(t, &r, id); l.Value != want[0] || !strings.Contains(l.Note, want[1]) {
					t.Errorf("%s is %q, %q; want %q, %q", id, l.Value, l.Note, want[0], want[1])
				}
			}
			fits(t, Text(&r))
		})
	}
}
