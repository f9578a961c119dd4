package session

import (
	"testing"

	"ingero/pkg/events"
)

func TestDevices(t *testing.T) {
	d := devices{195, 510}
	waits := []events.Wait{
		{Reason: events.ReasonDevice, Dev: 195<<20 | 255},
		{Reason: events.ReasonDevice, Dev: 510 << 20},
		{Reason: events.ReasonDevice, Dev: 5<<20 | 195},
		{Reason: events.ReasonDisk, Dev: 195 << 20},
	}
	d.waits(waits)
	for i, want := range []events.Reason{events.ReasonGPU, events.ReasonGPU, events.ReasonDevice, events.ReasonDisk} {
		if waits[i].Reason != want {
			t.Errorf("device %#x: %v, want %v", waits[i].Dev, waits[i].Reason, want)
		}
	}
}
