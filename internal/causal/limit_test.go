package causal

import (
	"fmt"
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
			w := &Window{e: e, host: tt.host}
			if u, ok := w.otherUser(&Finding{PID: 7, From: start, To: start + s1}); ok != (tt.want != 0) || ok && u.PID != tt.want {
				t.Errorf("process %d, %v, want %d", u.PID, ok, tt.want)
			}
		})
	}
}

// The threads of another program are no workers of the job. Whichever of the two used more is named.
func TestQuotaUsedByAnotherProgram(t *testing.T) {
	for _, tt := range []struct {
		name        string
		parent      uint32 // of the other process; 0: unknown
		job, beside int64  // CPU time
		want        string
	}{
		{"the other used more", 5, 200 * ms, 700 * ms, "[9 process]"},
		{"the job used more", 5, 700 * ms, 200 * ms, "[7 thread]"},
		{"a process with an unknown parent", 0, 200 * ms, 700 * ms, "[9 process]"},
		{"a small process with an unknown parent", 0, 700 * ms, 200 * ms, "[7 thread]"},
	} {
		e := New(1)
		e.relations.parents = map[uint32]uint32{7: 5, 9: tt.parent}
		w := &Window{e: e, host: []HostSample{hitQuota(7, "/pod"), usedCPU(7, "16 train", tt.job), usedCPU(9, "64 kernel", tt.beside)}}
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
