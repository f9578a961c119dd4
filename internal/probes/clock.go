package probes

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"ingero/internal/bpf"
	"ingero/internal/proc"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// clocks has a perf event for each CPU. They tick if a thread has recently ended a long wait or
// computed for long between two calls, or computes while another waits for it.
type clocks struct {
	fds []int
	on  bool
}

// openClocks opens the clock of each CPU, stopped.
func openClocks(program *ebpf.Program) (*clocks, error) {
	cpus, err := proc.OnlineCPUs()
	if err != nil {
		return nil, fmt.Errorf("list the CPUs: %w", err)
	}
	c := &clocks{}
	for _, cpu := range cpus {
		attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK, Size: uint32(unix.PERF_ATTR_SIZE_VER1),
			Sample: events.SampleHz, Bits: unix.PerfBitFreq | unix.PerfBitDisabled | unix.PerfBitExcludeIdle}
		fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if errors.Is(err, unix.ENODEV) { // the CPU has gone offline
			continue
		}
		if err == nil {
			c.fds = append(c.fds, fd)
			err = unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_BPF, program.FD())
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open a clock on CPU %d: %w", cpu, err), c.close())
		}
	}
	return c, nil
}

// run starts or stops the clocks.
func (c *clocks) run(on bool) error {
	if c == nil || c.on == on {
		return nil
	}
	request := uint(unix.PERF_EVENT_IOC_DISABLE)
	if on {
		request = unix.PERF_EVENT_IOC_ENABLE
	}
	var errs []error
	for _, fd := range c.fds {
		errs = append(errs, unix.IoctlSetInt(fd, request, 0))
	}
	c.on = on
	return errors.Join(errs...)
}

// close closes the clocks. It is idempotent.
func (c *clocks) close() error {
	if c == nil {
		return nil
	}
	var errs []error
	for _, fd := range c.fds {
		errs = append(errs, unix.Close(fd))
	}
	c.fds = nil
	return errors.Join(errs...)
}

// addClocks opens the clocks. On failure the trace continues, with a report.
func (t *Tracer) addClocks() {
	program := t.programs[bpf.IngeroProgOnClock]
	if program == nil {
		return
	}
	c, err := openClocks(program)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.clocks = c; err != nil {
		t.hostLacks = append(t.hostLacks, tick.Report{Kind: "host-source", Object: "clock",
			Why: "the lines at which threads compute, while others wait for them or between two CUDA calls, are not known: " + explain(err).Error()})
	}
}
