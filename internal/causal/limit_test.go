package causal

import (
	"testing"

	"ingero/internal/tick"
)

// Another process of the cgroup is named if it used much of the cgroup's CPU time.
func TestOtherUserOfQuota(t *testing.T) {
	used := func(pid uint32, object string, ns int64) HostSample {
		return HostSample{start, start + s1, tick.HostSum{HostKey: tick.HostKey{Kind: tick.HostThreads, PID: pid, Object: object}, NS: uint64(ns)}}
	}
	for _, tt := range []struct {
		name string
		host []HostSample
		want uint32 // process
	}{
		{"a sidecar", []HostSample{used(7, "1 train", 700*ms), used(9, "2 envoy", 400*ms), used(9, "1 main", 300*ms)}, 9},
		{"the larger one", []HostSample{used(7, "1 train", 100*ms), used(9, "2 envoy", 400*ms), used(10, "1 logger", 500*ms)}, 10},
		{"a small one", []HostSample{used(7, "1 train", 900*ms), used(9, "1 envoy", 100*ms)}, 0},
		{"a worker of the job", []HostSample{used(7, "1 train", 300*ms), used(8, "1 worker", 700*ms)}, 0},
		{"another process hit its own quota", []HostSample{used(7, "1 train", 300*ms), used(9, "1 envoy", 700*ms),
			{start, start + s1, tick.HostSum{HostKey: tick.HostKey{Kind: tick.HostLimit, PID: 9}, NS: 1}}}, 0},
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
