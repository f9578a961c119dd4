package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"ingero/internal/tick"
)

// Meter reads the machine's state and what the agent itself uses. It is for one
// goroutine. It needs no clock: a share is one of the kernel's own count of time.
type Meter struct {
	fs   FS
	last cpuTimes
	cpu  float64
	self time.Duration // of CPU, at NewMeter
	sums []tick.HostSum
	buf  []byte
}

// NewMeter returns a meter whose first Read covers the time from now on. With
// the zero Meter it covers the time since boot, and since the agent's start.
func NewMeter(fs FS) (*Meter, error) {
	m := &Meter{fs: fs}
	var h tick.Host
	if err := m.readCPU(&h); err != nil {
		return nil, err
	}
	used, err := selfCPU()
	m.self = used
	return m, err
}

// Read fills h with the state of the machine, its CPU share being that since the
// last Read, and s with what the agent has used since NewMeter. What it cannot
// read it leaves alone and names in the error.
func (m *Meter) Read(h *tick.Host, s *tick.Self) error {
	return errors.Join(m.readCPU(h), m.readMemory(h), m.readLoad(h), m.readSelf(s))
}

func (m *Meter) readCPU(h *tick.Host) (err error) {
	if m.buf, err = m.fs.readFile(maxStat, m.buf[:0], "stat"); err != nil {
		return err
	}
	now, err := parseCPUTimes(m.buf)
	if err != nil {
		return fmt.Errorf("%s: %w", m.fs.path("stat"), err)
	}
	// Within one count of the clock nothing has moved, and a CPU that went
	// offline takes its time along: the share stays what it was.
	if now.busy >= m.last.busy && now.idle >= m.last.idle && now != m.last {
		busy, idle := now.busy-m.last.busy, now.idle-m.last.idle
		m.cpu = float64(busy) / float64(max(busy+idle, 1))
	}
	m.addTimes(&now)
	m.last = now
	h.CPU, h.CPUs = m.cpu, now.cpus
	return nil
}

// cpuTimes are sums over all CPUs, in clock ticks.
type cpuTimes struct {
	busy, idle uint64
	of         [8]uint64 // in the order of the file
	cpus       int
}

// Columns of /proc/stat.
const (
	idleTime = iota + 3
	ioWait
	irqTime
	softIRQTime
	stealTime
)

// notForTasks are the times that no task had.
var notForTasks = []struct {
	kind tick.HostEvent
	at   int
}{{tick.HostIRQ, irqTime}, {tick.HostSoftIRQ, softIRQTime}, {tick.HostSteal, stealTime}, {tick.HostIOWait, ioWait}}

// Sums returns what of the CPU time between the last two readings no task had.
func (m *Meter) Sums() []tick.HostSum { return m.sums }

// addTimes makes them. Time spent idle while a task waits for a disk can go backwards.
func (m *Meter) addTimes(now *cpuTimes) {
	m.sums = nil
	if m.last.cpus == 0 {
		return
	}
	for _, x := range notForTasks {
		if n := now.of[x.at]; n > m.last.of[x.at] {
			m.sums = append(m.sums, tick.HostSum{HostKey: tick.HostKey{Kind: x.kind}, NS: (n - m.last.of[x.at]) * uint64(userTick)})
		}
	}
}

// parseCPUTimes reads /proc/stat. Idle is what no task wanted; time stolen by a
// hypervisor counts as busy, since a task wanted it. Guest time is in user time.
func parseCPUTimes(b []byte) (cpuTimes, error) {
	var t cpuTimes
	found := false
	for len(b) > 0 {
		var line []byte
		line, b = cutLine(b)
		rest, ok := bytes.CutPrefix(line, []byte("cpu"))
		if !ok {
			break // the lines of CPUs come first
		}
		if len(rest) > 0 && rest[0] != ' ' {
			t.cpus++
			continue
		}
		for i := range t.of {
			n, after, ok := number(bytes.TrimLeft(rest, " "))
			if !ok || n > 1<<56 {
				return cpuTimes{}, errFormat
			}
			rest = after
			t.of[i] = n
			if i == idleTime || i == ioWait {
				t.idle += n
			} else {
				t.busy += n
			}
		}
		found = true
	}
	if !found {
		return cpuTimes{}, errFormat
	}
	return t, nil
}

func (m *Meter) readMemory(h *tick.Host) (err error) {
	if m.buf, err = m.fs.readFile(maxSmall, m.buf[:0], "meminfo"); err != nil {
		return err
	}
	if err := parseMeminfo(m.buf, h); err != nil {
		return fmt.Errorf("%s: %w", m.fs.path("meminfo"), err)
	}
	return nil
}

// parseMeminfo reads /proc/meminfo, whose figures are KiB.
func parseMeminfo(b []byte, h *tick.Host) error {
	const unset = -1
	total, avail, swap, free := int64(unset), int64(unset), int64(unset), int64(unset)
	for len(b) > 0 {
		var line []byte
		line, b = cutLine(b)
		key, val, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			continue
		}
		var to *int64
		switch string(key) {
		case "MemTotal":
			to = &total
		case "MemAvailable":
			to = &avail
		case "SwapTotal":
			to = &swap
		case "SwapFree":
			to = &free
		default:
			continue
		}
		n, _, ok := number(bytes.TrimLeft(val, " "))
		if !ok || n > 1<<52 {
			return errFormat
		}
		*to = int64(n) << 10
	}
	if total == unset || avail == unset || swap == unset || free == unset {
		return errFormat
	}
	h.MemTotal, h.MemAvail, h.SwapTotal, h.SwapUsed = total, avail, swap, max(swap-free, 0)
	return nil
}

func (m *Meter) readLoad(h *tick.Host) (err error) {
	if m.buf, err = m.fs.readFile(maxSmall, m.buf[:0], "loadavg"); err != nil {
		return err
	}
	load, err := parseLoad(m.buf)
	if err != nil {
		return fmt.Errorf("%s: %w", m.fs.path("loadavg"), err)
	}
	h.Load = load
	return nil
}

// parseLoad reads /proc/loadavg: three numbers with two decimals, and more.
func parseLoad(b []byte) (load [3]float64, err error) {
	for i := range load {
		whole, rest, ok := number(b)
		if !ok || len(rest) < 4 || rest[0] != '.' {
			return load, errFormat
		}
		cents, rest, ok := number(rest[1:])
		if !ok || cents > 99 || len(rest) == 0 || rest[0] != ' ' {
			return load, errFormat
		}
		load[i] = float64(whole) + float64(cents)/100
		b = rest[1:]
	}
	return load, nil
}

func (m *Meter) readSelf(s *tick.Self) error {
	used, err := selfCPU()
	if err != nil {
		return err
	}
	s.CPU = used - m.self
	if m.buf, err = m.fs.readFile(maxSmall, m.buf[:0], "self", "statm"); err != nil {
		return err
	}
	_, rest, ok := number(m.buf) // size resident ..., in pages
	pages, _, ok2 := number(bytes.TrimLeft(rest, " "))
	if !ok || !ok2 {
		return fmt.Errorf("%s: %w", m.fs.path("self", "statm"), errFormat)
	}
	s.RSS = int64(pages) * int64(os.Getpagesize())
	return nil
}

// selfCPU is what all threads of the agent have used, ended ones included.
func selfCPU() (time.Duration, error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("own CPU time: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}
