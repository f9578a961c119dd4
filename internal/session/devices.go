package session

import (
	"slices"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// gpuDriver is the prefix of the NVIDIA driver's device names: nvidia, nvidiactl, nvidia-uvm,
// nvidia-nvlink and so on.
const gpuDriver = "nvidia"

// devices lists the major numbers of the GPU driver's device files. The kernel assigns some of them
// when it loads the driver.
type devices []uint32

// reason returns r, or ReasonGPU for a device wait on a GPU's device file.
func (d devices) reason(r events.Reason, dev uint32) events.Reason {
	if r == events.ReasonDevice && slices.Contains(d, dev>>20) {
		return events.ReasonGPU
	}
	return r
}

func (d devices) waits(waits []events.Wait) {
	for i := range waits {
		waits[i].Reason = d.reason(waits[i].Reason, waits[i].Dev)
	}
}

func (d devices) thread(t *tick.Thread) { t.Now.Reason = d.reason(t.Now.Reason, t.Now.Dev) }
