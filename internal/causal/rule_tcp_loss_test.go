package causal

import (
	"testing"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Lost packets may explain why a worker waited for a store, but not why a rank slept.
func TestLostToProcesses(t *testing.T) {
	thread := events.Thread{PID: 200, TID: 201}
	for _, tt := range []struct {
		name string
		c    tick.Culprit
		want int64
	}{
		{"a peer", tick.Culprit{What: tick.APeer, Lost: 7}, 0},
		{"a peer that a worker asks", tick.Culprit{Thread: thread, What: tick.PeerAt + "10.0.0.7:6379", Lost: 7}, 0},
		{"a rank", tick.Culprit{Thread: thread, What: "slept while the job waited for it", Lost: 7}, 7},
	} {
		x := Finding{Culprits: []tick.Culprit{tt.c}}
		if got := x.lostTo(isProcess); got != tt.want {
			t.Errorf("%s: %d ns lost to processes, want %d", tt.name, got, tt.want)
		}
	}
}
