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

// Meter reads the state of the machine and the agent's own usage. It is not safe for concurrent
// use. It needs no clock: its shares are of the kernel's own time counts.
type Meter struct {
	fs   FS
	last cpuTimes
	cpu  float64
	self time.Duration // CPU time at NewMeter
	sums []tick.HostSum
	buf  []byte
}

// NewMeter returns a meter whose first Read covers the time from now on. The zero Meter covers the
// time since boot, and since the agent's start.
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

// Read fills h with the state of the machine, with the CPU share since the last Read. It fills s
// with the agent's usage since NewMeter. It skips what it cannot read and names it in the error.
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
	// Between clock ticks nothing changes, and a CPU that goes offline takes its time along. In
	// both cases the share stays.
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

// notForTasks are the CPU times that belong to no task.
var notForTasks = []struct {
	kind tick.HostEvent
	at   int
}{{tick.HostIRQ, irqTime}, {tick.HostSoftIRQ, softIRQTime}, {tick.HostSteal, stealTime}, {tick.HostIOWait, ioWait}}

// Sums returns the CPU time between the last two readings that belongs to no task.
func (m *Meter) Sums() []tick.HostSum { return m.sums }

// addTimes sets the sums. I/O wait time can go backwards.
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

// parseCPUTimes parses /proc/stat. Idle time is time that no task wanted. Stolen time counts as
// busy, since a task wanted it. User time includes guest time.
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

// parseMeminfo parses /proc/meminfo, whose figures are in KiB.
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

// parseLoad parses /proc/loadavg: three numbers with two decimals, and more.
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

// selfCPU returns the CPU time of all threads of the agent, including ended ones.
func selfCPU() (time.Duration, error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("own CPU time: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}
