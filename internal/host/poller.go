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

// Poller reads the files of one machine. The zero value is this one. It is for one
// goroutine.
type Poller struct {
	// Root is where its proc and sys lie; empty means the root of the file system.
	Root string
	// Boot is for how long it had been up when the trace began; 0: now.
	Boot time.Duration

	begun  bool
	last   map[tick.HostKey]*reading
	groups map[uint32]*membership // by process
	mounts []mount
	names  map[string]string // of devices, by number
	// allowed is on how many CPUs processes may run.
	allowed map[uint32]*allowance
	lacks   []tick.Report
	left    uint64 // files of processes and cgroups that were not read
	round   uint64
	buf     []byte
}

// reading is what counters stood at.
type reading struct {
	count, bytes, ns uint64 // as last told
	now              struct{ count, bytes, ns uint64 }
	round            uint64 // that saw it last
}

// Bounds of one round.
const (
	maxProcesses = 1024
	maxCgroups   = 256
	maxFile      = 64 << 10 // bytes
	maxNames     = 1024     // devices
	// leastNS is the time from which a counter of time alone is told.
	leastNS = uint64(10 * time.Millisecond)
)

// Read returns what was added to all counters since the last call, of the traced
// processes pids among others. The first call returns nothing but what concerns
// processes that began after the trace. With all, what is too little otherwise is
// told too: it is the last call.
func (p *Poller) Read(pids []uint32, all bool) []tick.HostSum {
	if !p.begun {
		p.begin()
	}
	p.round++
	p.machine()
	if len(pids) > maxProcesses {
		p.left += uint64(len(pids) - maxProcesses)
		pids = pids[:maxProcesses]
	}
	for _, pid := range pids {
		p.process(pid)
	}
	p.cgroups(pids)
	maps.DeleteFunc(p.allowed, func(_ uint32, a *allowance) bool { return a.round != p.round })
	out := p.added(all)
	p.begun = true
	return out
}

// Left returns how many processes and cgroups were not read, over all rounds.
func (p *Poller) Left() uint64 { return p.left }

// Reports says what this machine does not tell.
func (p *Poller) Reports() []tick.Report { return p.lacks }

func (p *Poller) begin() {
	p.last, p.groups, p.names = map[tick.HostKey]*reading{}, map[uint32]*membership{}, map[string]string{}
	p.allowed = map[uint32]*allowance{}
	p.mounts = parseMounts(p.read("proc", "self", "mountinfo"))
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

// note takes in what a counter stands at. What was not seen before counts from here,
// or with fresh, from zero.
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

// added returns what is worth telling, and forgets counters that are gone.
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

// read returns a file's content, nil where it cannot be read. It is valid until the
// next call.
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

// Device returns the name of a block device by its number, as "254:0"; the number
// where there is none.
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
