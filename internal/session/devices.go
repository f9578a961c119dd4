package session

import (
	"slices"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// gpuDriver begins the names of the devices of NVIDIA's driver: nvidia, nvidiactl,
// nvidia-uvm, nvidia-nvlink and so on.
const gpuDriver = "nvidia"

// devices are the major numbers of the GPU driver's device files. Some are given
// out as the driver is loaded.
type devices []uint32

// of is the reason of a wait, which for a device may be that it is a GPU's.
func (d devices) of(r events.Reason, dev uint32) events.Reason {
	if r == events.ReasonDevice && slices.Contains(d, dev>>20) {
		return events.ReasonGPU
	}
	return r
}

func (d devices) waits(waits []events.Wait) {
	for i := range waits {
		waits[i].Reason = d.of(waits[i].Reason, waits[i].Dev)
	}
}

func (d devices) thread(t *tick.Thread) { t.Now.Reason = d.of(t.Now.Reason, t.Now.Dev) }
