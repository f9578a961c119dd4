package sim

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ingero/internal/testkit"
)

// ranks runs ddp and returns each rank's result.
func ranks(t *testing.T, s Stack, args ...string) map[int64]counts {
	t.Helper()
	out, _ := s.lines(t, "ddp", args...)
	by := map[int64]counts{}
	for _, c := range out {
		by[c.n("rank")] = c
	}
	return by
}

func TestDDPIsExact(t *testing.T) {
	s := extract(t)
	for _, tt := range []struct {
		name string
		args []string
		n    int64
	}{
		{"two", []string{"--split"}, 2}, {"four", []string{"--ranks", "4", "--split"}, 4},
		{"one device", []string{"--ranks", "3", "--one-device", "--split"}, 3},
		{"blocking", []string{"INGERO_SIM_SYNC=block", "--ranks", "3", "--split"}, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ranks(t, s, append(tt.args, "--steps", "7", "--buckets", "3", "--layers", "5")...)
			if int64(len(got)) != tt.n {
				t.Fatalf("%d ranks reported, want %d", len(got), tt.n)
			}
			for rank, c := range got {
				want(t, c, map[string]int64{"steps": 7})
				expect := map[string]int64{"ncclAllReduce": 28, "ncclGroupEnd": 7, "cudaLaunchKernel": 35,
					"ncclCommInitRank": 1, "ncclCommSplit": 1, "ncclCommDestroy": 2}
				if rank == 0 {
					expect["ncclGetUniqueId"] = 1
				}
				wantCounts(t, c, "calls", expect)
				wantCounts(t, c, "launches", map[string]int64{"_Z14layer_backwardPfS_i": 35})
			}
		})
	}
}

func TestAbortReleasesTheRank(t *testing.T) {
	s := extract(t)
	got := ranks(t, s, "--ranks", "2", "--steps", "6", "--abort-step", "3")
	want(t, got[0], map[string]int64{"steps": 3})
	if d := time.Duration(got[0].n("abort_ns")); d < 100*time.Millisecond {
		t.Errorf("rank 0 was let go after %v, before it gave up", d)
	}
}

// A rank that dies leaves the others waiting, and no file behind.
func TestDeadRankLeavesTheOthersWaiting(t *testing.T) {
	s := extract(t)
	id := filepath.Join(t.TempDir(), "id")
	var procs []*testkit.Child
	for rank := range 2 {
		procs = append(procs, testkit.Start(t, s.command("ddp", "INGERO_SIM_SYNC=block", "--ranks", "2", "--rank", strconv.Itoa(rank),
			"--id-file", id, "--steps", "1000000", "--die-rank", "1", "--die-step", "3", "--hold")))
	}
	for _, p := range procs {
		p.Line("ready ")
		p.Send("")
	}
	if err := procs[1].Wait(); err == nil {
		t.Error("rank 1 did not die")
	}
	// Blocked in its synchronize, rank 0 has made the calls of three steps and of a fourth.
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", procs[0].PID()))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(maps), "\n") {
		if strings.Contains(line, "ingero-sim-nccl") && !strings.Contains(line, "(deleted)") {
			t.Errorf("the ranks' file still has a name: %s", line)
		}
	}
	if !bytes.Contains(maps, []byte("ingero-sim-nccl")) {
		t.Error("rank 0 does not map the ranks' file")
	}
	if strings.Contains(procs[0].Stdout(), "{") {
		t.Error("rank 0 came to its end without rank 1")
	}
	procs[0].Signal(syscall.SIGKILL)
	if err := procs[0].Wait(); err == nil {
		t.Error("rank 0 was not killed")
	}
}
