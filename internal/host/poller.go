package host

import (
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"ingero/internal/tick"
)

// Poller reads the files of one machine. The zero value reads this one. It is for one goroutine.
type Poller struct {
	// Root is the directory with its proc and sys; empty: the root directory.
	Root string
	// Boot is its uptime at the start of the trace; 0: now.
	Boot time.Duration

	begun  bool
	last   map[tick.HostKey]*reading
	groups map[uint32]*membership // by process
	mounts []mount
	names  map[string]string // device names, by number
	// allowed has the number of CPUs of each process.
	allowed map[uint32]*allowance
	// unreached has the limits that had never been reached in the last round, with its number.
	unreached map[limitFile]uint64
	// throttledAt has the quota that each process last reached, of the last threadRounds.
	throttledAt map[uint32]throttling
	lacks       []tick.Report
	unread      uint64 // unread files of processes and cgroups
	round       uint64
	buf         []byte
}

// reading has the values of a counter.
type reading struct {
	count, bytes, ns uint64 // last reported
	now              struct{ count, bytes, ns uint64 }
	round            uint64 // last round with the counter
}

// Limits of one round.
const (
	maxProcesses = 1024
	maxCgroups   = 256
	maxFile      = 64 << 10 // bytes
	maxNames     = 1024     // devices
	// leastNS is the least growth of a pure time counter to report.
	leastNS = uint64(10 * time.Millisecond)
)

// Read returns the growth of all counters since the last call, including those of the traced
// processes pids. The first call returns only counters of processes that started after the trace.
// With all, for the last call, it also returns growth that is too small otherwise.
func (p *Poller) Read(pids []uint32, all bool) []tick.HostSum {
	p.Begin()
	p.round++
	p.machine()
	if len(pids) > maxProcesses {
		p.unread += uint64(len(pids) - maxProcesses)
		pids = pids[:maxProcesses]
	}
	for _, pid := range pids {
		p.process(pid)
	}
	p.cgroups(pids)
	maps.DeleteFunc(p.allowed, func(_ uint32, a *allowance) bool { return a.round != p.round })
	return p.added(all)
}

// Unread returns the number of unread processes and cgroups, over all rounds.
func (p *Poller) Unread() uint64 { return p.unread }

// Reports returns the missing files of this machine.
func (p *Poller) Reports() []tick.Report { return p.lacks }

// Begin finds the cgroup hierarchies, which may take long. Read and AtMemoryLimit begin if nothing has yet.
func (p *Poller) Begin() {
	if p.begun {
		return
	}
	p.begun = true
	p.last, p.groups, p.names = map[tick.HostKey]*reading{}, map[uint32]*membership{}, map[string]string{}
	p.allowed, p.unreached, p.throttledAt = map[uint32]*allowance{}, map[limitFile]uint64{}, map[uint32]throttling{}
	p.mounts = parseMounts(p.read("proc", "self", "mountinfo"))
	p.findOwn()
	if p.Boot == 0 {
		var up unix.Timespec
		if unix.ClockGettime(unix.CLOCK_BOOTTIME, &up) == nil {
			p.Boot = time.Duration(up.Nano())
		}
	}
	for _, f := range machineFiles {
		if p.read(f.path...) == nil {
			p.lacks = append(p.lacks, tick.Report{Kind: "host-source", Object: f.what, Why: "/" + filepath.Join(f.path...) + " cannot be read" + f.do})
		}
	}
}

// note records the value of a counter. A new counter starts at its current value, or at zero if
// fresh.
func (p *Poller) note(k tick.HostKey, count, bytes, ns uint64, fresh bool) {
	r := p.last[k]
	if r == nil {
		r = &reading{}
		if !fresh {
			r.count, r.bytes, r.ns = count, bytes, ns
		}
		p.last[k] = r
	}
	r.round = p.round
	n := &r.now
	n.count, n.bytes, n.ns = max(count, n.count), max(bytes, n.bytes), max(ns, n.ns)
}

// added returns the growth worth reporting, and forgets counters that are gone.
func (p *Poller) added(all bool) (out []tick.HostSum) {
	for k, r := range p.last {
		gone := r.round != p.round
		s := tick.HostSum{HostKey: k, Count: r.now.count - r.count, Bytes: r.now.bytes - r.bytes, NS: r.now.ns - r.ns}
		if s.Count > 0 || s.Bytes > 0 || s.NS >= leastNS || s.NS > 0 && (all || gone) {
			out = append(out, s)
			r.count, r.bytes, r.ns = r.now.count, r.now.bytes, r.now.ns
		}
		if gone {
			delete(p.last, k)
		}
	}
	slices.SortFunc(out, tick.ByHostKey)
	return out
}

// read returns a file's content, nil if it is unreadable. It is valid until the next call.
func (p *Poller) read(elem ...string) []byte {
	return p.readPath(filepath.Join(append([]string{"/", p.Root}, elem...)...))
}

func (p *Poller) readPath(path string) []byte {
	if p.buf == nil {
		p.buf = make([]byte, maxFile)
	}
	fd, err := open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = unix.Close(fd) }()
	n := 0
	for n < len(p.buf) {
		m, err := unix.Read(fd, p.buf[n:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil
		}
		if m == 0 {
			break
		}
		n += m
	}
	return p.buf[:n]
}

func open(path string) (int, error) {
	for {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if !errors.Is(err, unix.EINTR) {
			if err != nil {
				err = &fs.PathError{Op: "open", Path: path, Err: err}
			}
			return fd, err
		}
	}
}

// Device returns the name of a block device by its number, such as "254:0"; the number if it has no
// name.
func (p *Poller) Device(number string) string {
	if name, ok := p.names[number]; ok {
		return name
	}
	name := number
	if b := p.read("sys", "dev", "block", number, "uevent"); b != nil {
		if v, ok := field(b, "DEVNAME="); ok && len(v) > 0 {
			name = string(v)
		}
	}
	if p.names == nil || len(p.names) >= maxNames {
		p.names = map[string]string{}
	}
	p.names[number] = name
	return name
}

func pidName(pid uint32) string { return strconv.FormatUint(uint64(pid), 10) }
