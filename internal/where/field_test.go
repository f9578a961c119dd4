package where

import (
	"strings"
	"testing"
	"time"

	"ingero/internal/testkit"
	"ingero/internal/tick"
)

// The place of a process follows from its launchers' variables, as real machines have them.
func TestFieldEnviron(t *testing.T) {
	for _, f := range testkit.Facts(t, "environ.tsv") {
		t.Run(f.At, func(t *testing.T) {
			vars := map[string]string{"HOME": "/root", "SHELL": "/bin/bash"}
			var w tick.Where
			for _, kv := range strings.Fields(f.Input) {
				k, v, _ := strings.Cut(kv, "=")
				if k == "cgroup" {
					w = Cgroups([]string{v})
					continue
				}
				vars[k] = v
			}
			for name := range vars { // variables that are not requested are absent
				if !contains(Variables(), name) {
					delete(vars, name)
				}
			}
			Environ(vars, &w)
			again := w
			if Environ(vars, &again); again != w {
				t.Errorf("a second time it is %+v, first %+v", again, w)
			}
			f.Check(t, map[string]string{"rank": w.Rank.String(), "local_rank": w.LocalRank.String(), "world_size": w.WorldSize.String(), "local_size": w.LocalSize.String(),
				"node_rank": w.NodeRank.String(), "job": w.Job, "step": w.Step, "master": w.Master, "devices": w.Devices})
		})
	}
}

func contains(list []string, name string) bool {
	for _, x := range list {
		if x == name {
			return true
		}
	}
	return false
}

// The control group names of real machines are recognized.
func TestFieldCgroups(t *testing.T) {
	for _, f := range testkit.Facts(t, "cgroups.tsv") {
		t.Run(f.At, func(t *testing.T) {
			w := Cgroups([]string{f.Input})
			f.Check(t, map[string]string{"runtime": w.Runtime, "container": w.Container, "pod_uid": w.PodUID, "qos": w.QoS, "unit": w.Unit, "job": w.Job, "step": w.Step})
		})
	}
}

// Programs and jobs are found through launchers and interpreters.
func TestFieldPrograms(t *testing.T) {
	for _, f := range testkit.Facts(t, "programs.tsv") {
		t.Run(f.At, func(t *testing.T) {
			all := family0(f.Input)
			f.Check(t, map[string]string{"program": Programs(all)[100], "job": Jobs(all)[100]})
			if len(all) > 1 {
				return
			}
			if got, want := Program(&all[0]), Programs(all)[100]; got != want {
				t.Errorf("alone it is %q, with others %q", got, want)
			}
		})
	}
}

// family0 is process 100 with its parents.
func family0(lines string) (all []tick.Process) {
	for i, line := range strings.Split(lines, "\n") {
		p := tick.Process{PID: uint32(100 - i), PPID: uint32(100 - i - 1), Comm: "comm", Started: time.Unix(int64(1000-i), 0)}
		p.Cmdline = line
		all = append(all, p)
	}
	return all
}

// Ranks and workers of one server share a job. Two servers of the same program that run at the same
// time do not.
func TestJobs(t *testing.T) {
	n := tick.Numbered
	rank := func(pid, ppid uint32, line, master string, r uint32) tick.Process {
		p := tick.Process{PID: pid, PPID: ppid, Started: time.Unix(int64(pid), 0)}
		p.Cmdline, p.Master, p.Rank, p.WorldSize = line, master, n(r), n(2)
		return p
	}
	plain := func(pid, ppid uint32, line string, ended int64) tick.Process {
		p := tick.Process{PID: pid, PPID: ppid, Started: time.Unix(int64(pid), 0)}
		if p.Cmdline = line; ended != 0 {
			p.Ended = time.Unix(ended, 0)
		}
		return p
	}
	pod := func(pid uint32, name, master string) tick.Process {
		p := rank(pid, 1, "python train.py", master, pid%2)
		p.Pod, p.Namespace = name, "ml"
		return p
	}
	for _, tt := range []struct {
		name string
		all  []tick.Process
		want map[uint32]string
	}{
		{"ranks of torchrun", []tick.Process{rank(10, 9, "python train.py", "a:29500", 0), rank(11, 9, "python train.py", "a:29500", 1)},
			map[uint32]string{10: "train.py (a:29500)", 11: "train.py (a:29500)"}},
		{"two of torchrun", []tick.Process{rank(10, 8, "python train.py", "a:29500", 0), rank(11, 9, "python train.py", "a:29501", 0)},
			map[uint32]string{10: "train.py (a:29500)", 11: "train.py (a:29501)"}},
		{"workers of a server", []tick.Process{plain(10, 1, "vllm serve x", 0), plain(11, 10, "VLLM::EngineCore", 0), plain(12, 11, "VLLM::Worker_TP0", 0), plain(13, 11, "VLLM::Worker_TP1", 0)},
			map[uint32]string{10: "vllm", 11: "vllm", 12: "vllm", 13: "vllm"}},
		{"two servers", []tick.Process{plain(10, 1, "vllm serve x", 0), plain(11, 10, "VLLM::Worker_TP0", 0), plain(20, 1, "vllm serve y", 0), plain(21, 20, "VLLM::Worker_TP0", 0)},
			map[uint32]string{10: "vllm (10)", 11: "vllm (10)", 20: "vllm (20)", 21: "vllm (20)"}},
		{"one after the other", []tick.Process{plain(10, 1, "python train.py", 15), plain(20, 1, "python train.py", 0)},
			map[uint32]string{10: "train.py", 20: "train.py"}},
		{"pods of one job", []tick.Process{pod(10, "bert-master-0", "bert-master-0:23456"), pod(11, "bert-worker-0", "bert-master-0:23456"), pod(12, "gpt-worker-0", "gpt-master-0:23456")},
			map[uint32]string{10: "pods ml/bert-master-0:23456", 11: "pods ml/bert-master-0:23456", 12: "pods ml/gpt-master-0:23456"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Jobs(tt.all)
			for pid, want := range tt.want {
				if got[pid] != want {
					t.Errorf("process %d is of %q, want %q", pid, got[pid], want)
				}
			}
		})
	}
}
