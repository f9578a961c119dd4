package causal

import (
	"fmt"
	"strings"
	"testing"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

func usedCPU(pid uint32, threads string, ns int64) HostSample {
	return HostSample{start, start + s1, tick.HostSum{HostKey: tick.HostKey{Kind: tick.HostThreads, PID: pid, Object: threads}, NS: uint64(ns)}}
}

// hitQuota returns the throttling of a process by the quota of a group.
func hitQuota(pid uint32, group string) HostSample {
	l := tick.Limit{Group: group, File: "/sys/fs/cgroup" + group + "/cpu.max", Raw: "800000 100000"}
	return HostSample{start, start + s1, tick.HostSum{HostKey: tick.HostKey{Kind: tick.HostLimit, PID: pid, Object: l.String()}, Count: 9, NS: 1}}
}

// Another process of the cgroup is named if it used much of the cgroup's CPU time.
func TestOtherUserOfQuota(t *testing.T) {
	for _, tt := range []struct {
		name string
		host []HostSample
		want uint32 // process
	}{
		{"a sidecar", []HostSample{usedCPU(7, "1 train", 700*ms), usedCPU(9, "2 envoy", 400*ms), usedCPU(9, "1 main", 300*ms)}, 9},
		{"the larger one", []HostSample{usedCPU(7, "1 train", 100*ms), usedCPU(9, "2 envoy", 400*ms), usedCPU(10, "1 logger", 500*ms)}, 10},
		{"a small one", []HostSample{usedCPU(7, "1 train", 900*ms), usedCPU(9, "1 envoy", 100*ms)}, 0},
		{"a worker of the job", []HostSample{usedCPU(7, "1 train", 300*ms), usedCPU(8, "1 worker", 700*ms)}, 0},
		{"another process hit its own quota", []HostSample{usedCPU(7, "1 train", 300*ms), usedCPU(9, "1 envoy", 700*ms),
			hitQuota(9, "/envoy")}, 0},
		{"a worker hit the same quota", []HostSample{hitQuota(7, "/job"), hitQuota(8, "/job"), usedCPU(7, "1 train", 200*ms), usedCPU(8, "1 worker", 100*ms), usedCPU(9, "1 envoy", 700*ms)}, 9},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := New(1)
			e.relations.parents = map[uint32]uint32{8: 7}
			w, x := &Window{e: e, host: tt.host}, Finding{PID: 7, From: start, To: start + s1}
			if u, ok := w.otherUser(&x, w.cpuQuota(&x, &tick.Limit{})); ok != (tt.want != 0) || ok && u.PID != tt.want {
				t.Errorf("process %d, %v, want %d", u.PID, ok, tt.want)
			}
		})
	}
}

// The threads of another program are no workers of the job. Whichever of the two used more is named. Processes
// outside the group with the quota did not use it, although the threads of their group are read, too.
func TestQuotaUsedByAnotherProgram(t *testing.T) {
	const before = 10 * s1 // threads of the group are still read
	other := hitQuota(9, "/other")
	other.From, other.To = other.From-before, other.To-before
	for _, tt := range []struct {
		name        string
		parent      uint32 // of the other process; 0: unknown
		job, beside int64  // CPU time
		groups      string // of the two; "": unknown
		also        []HostSample
		want        string
	}{
		{"the other used more", 5, 200 * ms, 700 * ms, "", nil, "[9 process]"},
		{"the job used more", 5, 700 * ms, 200 * ms, "", nil, "[7 thread]"},
		{"a process with an unknown parent", 0, 200 * ms, 700 * ms, "", nil, "[9 process]"},
		{"a small process with an unknown parent", 0, 700 * ms, 200 * ms, "", nil, "[7 thread]"},
		{"a process that hit its own quota before", 5, 200 * ms, 700 * ms, "", []HostSample{other}, "[7 thread]"},
		{"and one that is in the group", 5, 200 * ms, 700 * ms, "/kube/pod /kube/pod/sidecar", []HostSample{other}, "[9 process]"},
		{"a process in the group", 5, 200 * ms, 700 * ms, "/kube/pod/main /kube/pod", nil, "[9 process]"},
		{"a process in another group", 5, 200 * ms, 700 * ms, "/kube/pod /kube/other", nil, "[7 thread]"},
		{"a process in a group with a longer name", 5, 200 * ms, 700 * ms, "/kube/pod /kube/pod2", nil, "[7 thread]"},
		{"a process in the root group", 5, 200 * ms, 700 * ms, "/kube/pod /", nil, "[7 thread]"},
		{"a worker of the job in another group", 7, 200 * ms, 700 * ms, "/kube/pod /kube/other", nil, "[7 thread]"},
		{"a worker of the job in the group", 7, 200 * ms, 700 * ms, "/kube/pod /kube/pod", nil, "[9 worker 7 thread]"},
		{"in the group, from a cgroup namespace", 5, 200 * ms, 700 * ms, "/../../pod/main /../../pod/sidecar", nil, "[9 process]"},
		{"in another group, from a cgroup namespace", 5, 200 * ms, 700 * ms, "/../../pod/main /../../other", nil, "[7 thread]"},
		{"in the namespace's own group", 5, 200 * ms, 700 * ms, "/../../pod/main /", nil, "[7 thread]"},
		{"from a cgroup namespace below the group", 5, 200 * ms, 700 * ms, "/../main /../sidecar", nil, "[9 process]"},
		{"the namespace of the job", 5, 200 * ms, 700 * ms, "/ /../other", nil, "[9 process]"},
		{"paths in another hierarchy", 5, 200 * ms, 700 * ms, "/user.slice /system.slice", nil, "[9 process]"},
	} {
		e := New(1)
		of, beside, _ := strings.Cut(tt.groups, " ")
		e.relations.note(&tick.Tick{Processes: []tick.Process{{PID: 7, PPID: 5, Cgroup: of}}, Others: []tick.Process{{PID: 9, PPID: tt.parent, Cgroup: beside}}})
		w := &Window{e: e, host: append(tt.also, hitQuota(7, "/kube/pod"), usedCPU(7, "16 train", tt.job), usedCPU(9, "64 kernel", tt.beside))}
		x := Finding{PID: 7, From: start, To: start + s1, Culprits: make([]tick.Culprit, 1)}
		throttledBy(w, &x)
		var got []any
		for i := range x.Culprits[1:] {
			c := &x.Culprits[1+i]
			got = append(got, c.Thread.PID, c.Root.Whose)
		}
		if fmt.Sprint(got) != tt.want {
			t.Errorf("%s: %v used the quota, want %s", tt.name, got, tt.want)
		}
	}
}

// The quota is that of the process that was throttled most. If that is unknown, it is that of another one that
// was throttled, or of the victim.
func TestQuotaOfAnotherProcess(t *testing.T) {
	own := tick.Culprit{Own: true}
	rank1 := tick.Culprit{Thread: events.Thread{PID: 9, TID: 10}}
	unknown := tick.Culprit{Thread: events.Thread{PID: 8, TID: 8}}
	both := []HostSample{hitQuota(9, "/rank1"), hitQuota(7, "/rank0")}
	for _, tt := range []struct {
		name     string
		host     []HostSample
		culprits []tick.Culprit
		want     string
		whose    events.Thread
	}{
		{"mostly a rank in another container", both, []tick.Culprit{rank1, own}, "/rank1", rank1.Thread},
		{"mostly its own", both, []tick.Culprit{own, rank1}, "/rank0", own.Thread},
		{"a rank after an unknown process", both, []tick.Culprit{unknown, rank1}, "/rank1", rank1.Thread},
		{"an unknown process", both, []tick.Culprit{unknown}, "/rank0", unknown.Thread},
		{"another process hit a quota", []HostSample{hitQuota(11, "/other")}, []tick.Culprit{unknown, rank1}, "", unknown.Thread},
	} {
		x := Finding{PID: 7, From: start, To: start + s1, Culprits: tt.culprits}
		throttledBy(&Window{e: New(1), host: tt.host}, &x)
		if got := x.Culprits[0]; got.Limit.Group != tt.want || got.Thread != tt.whose {
			t.Errorf("%s: quota of %q, which throttled %d; want %q, %d", tt.name, got.Limit.Group, got.Thread.PID, tt.want, tt.whose.PID)
		}
	}
}
