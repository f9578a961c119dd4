package explain

import (
	"testing"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// A waited-for process of this machine is reported by name, and one of another machine by address,
// whichever part of the job waits.
func TestPeers(t *testing.T) {
	thread := events.Thread{PID: 200, TID: 200, Name: events.NameOf("worker")}
	for _, tt := range []struct {
		c    tick.Culprit
		want string
	}{
		{tick.Culprit{What: tick.APeer}, "a peer"},
		{tick.Culprit{Thread: thread, What: tick.PeerAt + "10.0.0.7:6379"}, "peer 10.0.0.7:6379"},
		{tick.Culprit{Thread: thread, What: "slept while the job waited for it"}, "worker"},
	} {
		if got := peers(&tick.Chain{Culprits: []tick.Culprit{tt.c}}); got != tt.want {
			t.Errorf("%+v is %q, want %q", tt.c, got, tt.want)
		}
	}
}
