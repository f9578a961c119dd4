package explain

import (
	"slices"
	"strings"
	"testing"
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// roots returns every possible root of a loss.
func roots() (out []tick.Root) {
	for _, w := range []tick.Relation{tick.RelationUnknown, tick.RelationSelf, tick.RelationThread, tick.RelationWorker, tick.RelationRank, tick.RelationStranger} {
		for _, d := range []tick.Activity{tick.ActivityUnknown, tick.ActivityCompute, tick.ActivityCrowd, tick.ActivityRead, tick.ActivityWrite, tick.ActivityPage, tick.ActivityPeer, tick.ActivitySleep, tick.ActivityLock, tick.ActivityGPU, tick.ActivityHold} {
			out = append(out, tick.Root{Whose: w, Did: d})
		}
	}
	return out
}

// Each rule with advice by root has advice for every root, and each row is used.
func TestAdviceIsComplete(t *testing.T) {
	used := map[*advice]bool{}
	for i := range advices {
		for _, r := range roots() {
			a := adviceFor(advices[i].rule, r)
			if a == nil {
				t.Fatalf("%s has no advice for %+v", advices[i].rule, r)
			}
			used[a] = true
		}
	}
	for i := range advices {
		if a := &advices[i]; !used[a] {
			t.Errorf("no root has the row %s, %s, %s", a.rule, a.relation, a.did)
		}
	}
}

// The fix addresses the root of a loss and omits advice that does not help.
func TestAdviceFollowsFromTheRoot(t *testing.T) {
	disk := func(whose tick.Relation, did tick.Activity, lost int) tick.Culprit {
		return tick.Culprit{What: "disk 254:0", Root: tick.Root{Whose: whose, Did: did}, Lost: time.Duration(lost) * ms}
	}
	worker := func(did tick.Activity, lost int) tick.Culprit {
		return tick.Culprit{Thread: thread("pt_data_worker", 41, 41), Root: tick.Root{Whose: tick.RelationWorker, Did: did}, Lost: time.Duration(lost) * ms}
	}
	begun := func(pid, at uint32) tick.Culprit {
		return tick.Culprit{Thread: events.Thread{PID: pid, TID: pid, Start: at, Name: events.NameOf("feed")}, Root: tick.Root{Whose: tick.RelationWorker, Did: tick.ActivityCompute}, Lost: 9 * ms}
	}
	for _, tt := range []struct {
		name, rule string
		culprits   []tick.Culprit
		want, not  []string
	}{
		{"processes that start again and again", "input-wait", []tick.Culprit{begun(41, 1000), begun(42, 1100)}, []string{"why feed ends", "persistent_workers=True"}, []string{"num_workers"}},
		{"workers that started at other times than those of the waits", "input-wait", []tick.Culprit{begun(41, 1000), begun(42, 1300)}, []string{"num_workers"}, []string{"persistent_workers"}},
		{"workers that started together", "input-wait", []tick.Culprit{begun(41, 1000), begun(42, 1001)}, []string{"num_workers"}, []string{"persistent_workers"}},
		{"a worker decodes", "input-wait", []tick.Culprit{worker(tick.ActivityCompute, 9)}, []string{"num_workers", "prefetch_factor", "decode"}, []string{"renice", "taskset", "disk"}},
		{"workers decode on all CPUs that they have", "input-wait", []tick.Culprit{worker(tick.ActivityCompute, 5), worker(tick.ActivityCrowd, 5)}, []string{"more workers do not help"}, []string{"num_workers", "renice", "taskset"}},
		{"a worker sleeps", "input-wait", []tick.Culprit{worker(tick.ActivitySleep, 9)}, []string{"sleep"}, []string{"decode"}},
		{"a program that the job started computes", "input-wait", []tick.Culprit{{Thread: thread("feed", 41, 41), Root: tick.Root{Whose: tick.RelationWorker, Did: tick.ActivityCompute}, Cmdline: "feed --rows 64"}}, []string{"make feed faster", "keep it running"}, []string{"num_workers"}},
		{"a worker that multiprocessing started computes", "input-wait", []tick.Culprit{{Thread: thread("python3", 41, 41), Root: tick.Root{Whose: tick.RelationWorker, Did: tick.ActivityCompute}, Cmdline: "python3 -c from multiprocessing.spawn import spawn_main"}}, []string{"num_workers"}, []string{"keep it running"}},
		{"a thread receives what a pool returns", "gil-wait", []tick.Culprit{{Thread: thread("python3", 7, 9), Own: true, At: "/usr/lib/python3.13/multiprocessing/connection.py:251 in _ConnectionBase.recv()"}}, []string{"return less", "unpickles"}, []string{"to another process"}},
		{"a thread that receives is blocked", "lock-wait", []tick.Culprit{{Thread: thread("python3", 7, 9), Own: true, What: "was blocked itself: pipe", At: "/usr/lib/python3.13/multiprocessing/connection.py:251 in _ConnectionBase.recv()"}}, nil, []string{"return less", "unpickles"}},
		{"a worker takes messages from a queue", "input-wait", []tick.Culprit{{Thread: thread("indexer", 41, 41), What: "was busy while the job waited " + tick.ForCall}}, []string{"make indexer faster"}, []string{"num_workers"}},
		{"a reader of the job's log sleeps", "input-wait", []tick.Culprit{{Thread: thread("collector", 41, 41), What: "slept while the job waited " + tick.ForOutput}}, []string{"make collector faster", "pipe", "another thread"}, []string{"num_workers", "prefetch"}},
		{"a process answers the job's requests", "input-wait", []tick.Culprit{{Thread: thread("manager", 41, 41), Root: tick.Root{Whose: tick.RelationWorker, Did: tick.ActivityCompute}, What: "answered late: the job waited " + tick.ForReply}}, []string{"make manager answer faster", "send fewer requests"}, []string{"num_workers", "local disk"}},
		{"a process serves page faults", "peer-slow", []tick.Culprit{{Thread: thread("slowfs", 41, 41), What: "slept while the job waited " + tick.ForMemory}}, []string{"make slowfs faster", "read mapped files ahead"}, []string{"service"}},
		{"a worker reads a disk", "disk-wait", []tick.Culprit{disk(tick.RelationWorker, tick.ActivityRead, 9)}, []string{"WebDataset", "page cache", "num_workers"}, []string{"checkpoint", "more memory"}},
		{"torch.save with fsync", "disk-wait", []tick.Culprit{disk(tick.RelationSelf, tick.ActivityWrite, 9), disk(tick.RelationSelf, tick.ActivityPage, 1)}, []string{"checkpoints less often", "async_save", "another disk"}, []string{"more memory", "num_workers"}},
		{"checkpoints, and reads beside them", "disk-wait", []tick.Culprit{disk(tick.RelationSelf, tick.ActivityWrite, 6), disk(tick.RelationWorker, tick.ActivityRead, 4)}, []string{"checkpoints less often", "; and pack small files"}, nil},
		{"pages that are not in the cache", "disk-wait", []tick.Culprit{disk(tick.RelationWorker, tick.ActivityPage, 9)}, []string{"MADV_WILLNEED", "page cache"}, []string{"checkpoint"}},
		{"a worker asks a store", "peer-slow", []tick.Culprit{{What: "a peer", Root: tick.Root{Whose: tick.RelationWorker, Did: tick.ActivityPeer}, Lost: time.Duration(9) * ms}}, []string{"local disk", "num_workers"}, nil},
		{"another program holds a file lock", "lock-wait", []tick.Culprit{{Thread: thread("annotate", 9, 9), Root: tick.Root{Whose: tick.RelationStranger, Did: tick.ActivityHold}, What: "held a lock on samples"}}, []string{"shorter transactions", "lslocks", "py-spy dump --pid 9 "}, []string{"SELECT"}},
		{"an unknown program holds a file lock", "lock-wait", []tick.Culprit{{Root: tick.Root{Did: tick.ActivityHold}, What: "a lock on samples whose holder is unknown"}}, []string{"lslocks"}, []string{"py-spy", "PROCESS"}},
		{"own workers have the CPU", "own-threads", []tick.Culprit{worker(tick.ActivityCrowd, 9)}, []string{"fewer workers (data loader num_workers"}, []string{"renice", "taskset", "OMP_NUM_THREADS"}},
		{"OpenMP threads have the CPU", "own-threads", []tick.Culprit{{Thread: thread("python3", 7, 9), Own: true, Root: tick.Root{Whose: tick.RelationThread, Did: tick.ActivityCrowd}, Lost: time.Duration(9) * ms}}, []string{"OMP_NUM_THREADS"}, []string{"renice", "num_workers"}},
		{"a rank whose CPU is taken", "nccl-straggler", []tick.Culprit{{Thread: thread("python3", 9, 9), What: "rank 1 of 2, delayed by hog (cpu-taken)", Lost: time.Duration(9) * ms}}, []string{"fix what slows the late rank (delayed by hog (cpu-taken)): ingero explain --pid 9"}, []string{"find out"}},
		{"a rank that is late for an unknown reason", "nccl-straggler", []tick.Culprit{{Thread: thread("python3", 9, 9), What: "rank 1 of 2", Lost: time.Duration(9) * ms}}, []string{"find out what slows the late rank: ingero explain --pid 9"}, nil},
		{"workers beside a stranger", "cpu-taken", []tick.Culprit{worker(tick.ActivityCompute, 9), {Thread: thread("stress-ng", 900, 900), Lost: time.Duration(3) * ms}}, []string{"sudo renice -n 19 -p $(ls /proc/900/task)"}, []string{" 41"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := chainOfRule(tt.rule, 0, tt.culprits...)
			got := wordsFor(&c).fix(&c, &victim{name: "python3", cpus: 2, where: tick.Where{Cmdline: "python3 train.py"}})
			for _, w := range tt.want {
				if !strings.Contains(got, w) {
					t.Errorf("%q does not say %q", got, w)
				}
			}
			for _, w := range tt.not {
				if strings.Contains(got, w) {
					t.Errorf("%q says %q", got, w)
				}
			}
		})
	}
}

// A program that takes the CPU of another thread keeps the job waiting for that thread, not for a CPU.
func TestTakenFromAnotherThread(t *testing.T) {
	c := chainOfRule("cpu-taken", 0, tick.Culprit{Thread: thread("hog", 8821, 8821), Path: "its own thread holder 8, which waited for a CPU"})
	w := wordsFor(&c)
	got := w.rootCause(&c, &victim{name: "train"})
	if want := "hog (8821) ran on a CPU while the thread that train waited for had no CPU; train waited for its own thread holder 8, which waited for a CPU"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A holder of a lock has its name in the head, also behind an unknown one.
func TestHoldersOfALock(t *testing.T) {
	c := chainOfRule("lock-wait", 0, tick.Culprit{What: "a lock on samples whose holder is unknown; the job tried to get it 60 times"},
		tick.Culprit{Thread: thread("annotate", 9, 9), What: "held a lock on samples; the job tried to get it 40 times"})
	w := wordsFor(&c)
	if got, want := w.head(&c), "waited for a lock or thread: a lock on samples whose holder is unknown and annotate"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A limit is raised where it is set: in the group's manager, or in its file.
func TestLimitsAreRaisedWhereTheyAre(t *testing.T) {
	const (
		v2   = "/sys/fs/cgroup"
		v1   = "/sys/fs/cgroup/cpu,cpuacct"
		long = "3f2b8c1d9e7a3f2b8c1d9e7a3f2b8c1d9e7a3f2b8c1d9e7a3f2b8c1d9e7a3f2b"
	)
	for _, tt := range []struct {
		name, source, rule, group, file, raw string
		want                                 string
	}{
		{"a user's slice", "FIELD 10: systemd, CPUQuota on user-1003.slice", "cpu-throttled", "/user.slice/user-1003.slice", v2 + "/user.slice/user-1003.slice/cpu.max", "200000 100000",
			"systemctl set-property --runtime user-1003.slice CPUQuota=N%"},
		{"the same in version 1", "FIELD 10: hybrid", "cpu-throttled", "/user.slice/user-1003.slice", v1 + "/user.slice/user-1003.slice/cpu.cfs_quota_us", "200000 100000",
			"systemctl set-property --runtime user-1003.slice CPUQuota=N%"},
		{"a container of podman", "FIELD 10: libpod-<id>.scope/container", "cpu-throttled", "/machine.slice/libpod-" + long + ".scope", v2 + "/machine.slice/libpod-" + long + ".scope/cpu.max", "50000 100000",
			"podman update --cpus N 3f2b8c1d9e7a"},
		{"Docker", "docker(1): update", "cpu-throttled", "/docker/" + long, v1 + "/docker/" + long + "/cpu.cfs_quota_us", "50000 100000", "docker update --cpus N 3f2b8c1d9e7a"},
		{"a pod", "Kubernetes", "cpu-throttled", "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0a1b2c3d_0a1b_0a1b_0a1b_0a1b2c3d4e5f.slice/cri-containerd-" + long + ".scope", "", "800000 100000", "resources.limits.cpu"},
		{"a Slurm job", "Slurm", "cpu-throttled", "/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0", "", "800000 100000", "sbatch --cpus-per-task=N"},
		{"a group that a person made, version 2", "cgroups(7)", "cpu-throttled", "/lab/train", v2 + "/lab/train/cpu.max", "50000 100000", "echo max | sudo tee /sys/fs/cgroup/lab/train/cpu.max"},
		{"a group that a person made, version 1", "cgroups(7)", "cpu-throttled", "/lab/train", v1 + "/lab/train/cpu.cfs_quota_us", "50000 100000", "echo -1 | sudo tee /sys/fs/cgroup/cpu,cpuacct/lab/train/cpu.cfs_quota_us"},
		{"a user's unit", "systemd --user", "cpu-throttled", "/user.slice/user-1000.slice/user@1000.service/app.slice/train.service", "", "50000 100000", "systemctl --user set-property --runtime train.service CPUQuota=N%"},
		{"CPUs of a service", "systemd.resource-control(5): AllowedCPUs=", "cpuset-shrunk", "/system.slice/train.service", v2 + "/system.slice/train.service/cpuset.cpus", "2-3", "systemctl set-property --runtime train.service AllowedCPUs=LIST"},
		{"CPUs of a slice above", "systemd", "cpuset-shrunk", "/system.slice", v2 + "/system.slice/cpuset.cpus", "2-3", "back: sudo systemctl set-property --runtime system.slice AllowedCPUs=LIST"},
		{"the same in version 1, which systemd leaves alone", "systemd.resource-control(5)", "cpuset-shrunk", "/system.slice/train.service", "/sys/fs/cgroup/cpuset/system.slice/train.service/cpuset.cpus", "2-3", "echo LIST | sudo tee /sys/fs/cgroup/cpuset/system.slice/train.service/cpuset.cpus"},
		{"CPUs of a Slurm job", "Slurm", "cpuset-shrunk", "/slurm/uid_1000/job_4711", "/sys/fs/cgroup/cpuset/slurm/uid_1000/job_4711/cpuset.cpus", "0,2", "sbatch --cpus-per-task=N"},
		{"CPUs of a pod", "Kubernetes", "cpuset-shrunk", "/kubepods/pod1/c1", v2 + "/kubepods/pod1/c1/cpuset.cpus", "2", "CPU manager policy static"},
		{"CPUs of a container", "docker(1): update", "cpuset-shrunk", "/docker/" + long, "/sys/fs/cgroup/cpuset/docker/" + long + "/cpuset.cpus", "2", "docker update --cpuset-cpus LIST 3f2b8c1d9e7a"},
		{"CPUs of a group that a person made", "cgroups(7)", "cpuset-shrunk", "/lab/train", v2 + "/lab/train/cpuset.cpus", "2", "echo LIST | sudo tee /sys/fs/cgroup/lab/train/cpuset.cpus"},
		{"an affinity", "taskset(1)", "cpuset-shrunk", "", "", "", "back: sudo taskset -acp LIST "},
		{"memory of a service", "systemd", "memory-limit", "/system.slice/train.service", v2 + "/system.slice/train.service/memory.max", "2147483648", "systemctl set-property --runtime train.service MemoryMax=N"},
		{"memory of a Slurm job", "Slurm", "memory-limit", "/slurm/uid_1000/job_4711", "/sys/fs/cgroup/memory/slurm/uid_1000/job_4711/memory.limit_in_bytes", "2147483648", "sbatch --mem=N"},
		{"memory of a container", "docker(1): update", "memory-limit", "/system.slice/docker-" + long + ".scope", "", "2147483648", "docker update --memory N --memory-swap N 3f2b8c1d9e7a"},
		{"memory of a group, version 1", "cgroups(7)", "memory-limit", "/lab", "/sys/fs/cgroup/memory/lab/memory.limit_in_bytes", "2147483648", "echo N | sudo tee /sys/fs/cgroup/memory/lab/memory.limit_in_bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := chainOfRule(tt.rule, 0, tick.Culprit{What: "a limit", Limit: tick.Limit{Group: tt.group, File: tt.file, Raw: tt.raw}, Lost: time.Duration(9) * ms})
			v := &victim{name: "train.py", cgroup: tt.group + "/leaf", cpus: 16}
			if got := wordsFor(&c).fix(&c, v); !strings.Contains(got, tt.want) {
				t.Errorf("%s: %q does not say %q", tt.source, got, tt.want)
			}
			if tt.rule == "cpu-throttled" {
				if got := wordsFor(&c).cause(&c, v); !strings.Contains(got, tt.group+", ") || strings.Contains(got, "leaf") {
					t.Errorf("%q does not name the group that has the limit, with its value", got)
				}
			}
		})
	}
}

// Threads of the job that use up its quota are named, with the setting for their number.
func TestQuotaUsedUpByOwnThreads(t *testing.T) {
	c := chainOfRule("cpu-throttled", 0,
		tick.Culprit{What: "CPU quota of /kubepods/pod1/c1: 8 CPUs", Limit: tick.Limit{Group: "/kubepods/pod1/c1", File: "/sys/fs/cgroup/kubepods/pod1/c1/cpu.max", Raw: "800000 100000"}, Lost: time.Duration(9) * ms},
		tick.Culprit{Thread: events.Thread{PID: 7, TID: 7, Name: events.NameOf("python3")}, Root: tick.Root{Whose: tick.RelationThread, Did: tick.ActivityCrowd}, What: "192 threads, 7.68 s of CPU time", Lost: time.Duration(9) * ms})
	words, v := wordsFor(&c), &victim{name: "python3", cgroup: "/kubepods/pod1/c1"}
	all := []string{words.head(&c), words.cause(&c, v), words.fix(&c, v)}
	for i, want := range [][]string{{"CPU quota (8 CPUs) used up by 192 threads of its own (python3)"}, {"/kubepods/pod1/c1, 8 CPUs,", "192 threads, 7.68 s"}, {"OMP_NUM_THREADS=8", "resources.limits.cpu"}} {
		if slices.ContainsFunc(want, func(s string) bool { return !strings.Contains(all[i], s) }) {
			t.Errorf("%q does not say %q", all[i], want)
		}
	}
	if strings.Index(all[2], "OMP_NUM_THREADS") > strings.Index(all[2], "resources") {
		t.Errorf("the larger quota comes first: %q", all[2])
	}
}

// A quota of a process for which the victim waited has the cgroup, the process and the threads of that process.
func TestQuotaOfAnotherProcess(t *testing.T) {
	rank := events.Thread{PID: 8, TID: 8, Name: events.NameOf("rank1")}
	c := chainOfRule("cpu-throttled", 0,
		tick.Culprit{Thread: rank, What: "CPU quota of /lab/rank1: 0.1 CPUs", Limit: tick.Limit{Group: "/lab/rank1", File: "/sys/fs/cgroup/lab/rank1/cpu.max", Raw: "10000 100000"}, Lost: 9 * ms},
		tick.Culprit{Thread: rank, Root: tick.Root{Whose: tick.RelationRank, Did: tick.ActivityCrowd}, What: "4 threads, 590 ms of CPU time", Lost: 9 * ms})
	c.PID = 7
	words, v := wordsFor(&c), &victim{name: "rank0", cgroup: "/lab/rank0"}
	for _, x := range []struct{ got, want string }{
		{words.head(&c), "CPU quota (0.1 CPUs) used up by 4 threads of rank1 (8)"},
		{words.cause(&c, v), "the CPU quota of /lab/rank1, 0.1 CPUs, was used up, and the kernel throttled rank1 (8), for which rank0 waited: "},
		{words.fix(&c, v), "OMP_NUM_THREADS=1"},
		{words.fix(&c, v), "/sys/fs/cgroup/lab/rank1/cpu.max"},
	} {
		if !strings.Contains(x.got, x.want) {
			t.Errorf("%q does not say %q", x.got, x.want)
		}
	}
}
