package session

import (
	"slices"

	"ingero/internal/tape"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// gpuDriver begins the names of the devices of NVIDIA's driver: nvidia, nvidiactl,
// nvidia-uvm, nvidia-nvlink and so on.
const gpuDriver = "nvidia"

// devices are the major numbers of the GPU driver's device files. Some are given
// out as the driver is loaded.
type devices []uint32

// findGPUs learns the numbers, until there are some.
func (l *Live) findGPUs() {
	if len(l.gpus) > 0 {
		return
	}
	var majors []uint32
	ask(l.raw, tape.Majors, &majors, func() {
		var err error
		if majors, err = l.fs.CharMajors(gpuDriver); err != nil {
			l.Log.Debug("the GPU driver's devices are not known", "error", err)
		}
	})
	l.gpus = majors
}

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
