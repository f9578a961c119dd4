package proc

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// MapEvent says that a process has just mapped a CUDA library.
type MapEvent struct {
	Time     int64 // CLOCK_MONOTONIC, ns
	PID, TID uint32
	Library  Library
}

// ErrLostMaps says that events may be missing: scan again.
var ErrLostMaps = errors.New("map events were lost")

// MapWatcher tells of CUDA libraries that processes map, at the moment they do.
// It asks nothing of those processes: the kernel reports executable mappings of
// all of them to a perf event on each CPU.
type MapWatcher struct {
	names  Names
	poll   *os.File // epoll over the events, itself in the runtime's poller
	raw    syscall.RawConn
	online func() ([]int, error)
	closed atomic.Bool

	mu       sync.Mutex // held by Read and by the end of Close
	cpus     map[int]*cpuEvent
	checked  time.Time // when the list of CPUs was last compared
	lost     bool
	pending  []MapEvent
	returned int // of pending
}

type cpuEvent struct {
	fd   int
	mem  []byte
	ring perfRing
}

const (
	// watchPages of 4 KiB a CPU hold some 500 records. The buffer must be small
	// enough for perf_event_mlock_kb, which binds without CAP_IPC_LOCK.
	watchPages = 16
	cpuRecheck = time.Second
)

// WatchMaps begins to watch; what was mapped before is for Scan to find. It
// needs CAP_PERFMON, or CAP_SYS_ADMIN before Linux 5.8. On error nothing stays
// open.
func WatchMaps(names Names) (*MapWatcher, error) { return watchMaps(names, onlineCPUs) }

func watchMaps(names Names, online func() ([]int, error)) (*MapWatcher, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("watch mappings: epoll: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // so that the runtime polls it
		return nil, errors.Join(fmt.Errorf("watch mappings: epoll: %w", err), unix.Close(fd))
	}
	w := &MapWatcher{names: names, poll: os.NewFile(uintptr(fd), "epoll"), cpus: map[int]*cpuEvent{}, online: online}
	if w.raw, err = w.poll.SyscallConn(); err == nil {
		if err = w.poll.SetReadDeadline(time.Time{}); err == nil {
			err = w.refresh()
		}
	}
	if err == nil && len(w.cpus) == 0 {
		err = errors.New("no CPU has perf events")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("watch mappings: %w", err), w.Close())
	}
	w.lost = false
	return w, nil
}

// Read returns the next event. It blocks until there is one, the deadline has
// passed (os.ErrDeadlineExceeded) or the watcher is closed (os.ErrClosed); it
// returns ErrLostMaps and can go on when the reader was too slow. Events of
// different CPUs may come out of order.
func (w *MapWatcher) Read() (MapEvent, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		if w.closed.Load() {
			return MapEvent{}, os.ErrClosed
		}
		if w.returned < len(w.pending) {
			w.returned++
			return w.pending[w.returned-1], nil
		}
		if w.lost {
			w.lost = false
			return MapEvent{}, ErrLostMaps
		}
		w.pending, w.returned = w.pending[:0], 0
		err := w.raw.Read(func(fd uintptr) bool {
			w.drain(int(fd))
			return len(w.pending) > 0 || w.lost
		})
		if err != nil && !w.closed.Load() {
			return MapEvent{}, err // os.ErrDeadlineExceeded is as it should be
		}
	}
}

// SetDeadline makes Read give up at t; the zero time means never. It may be
// called while Read waits.
func (w *MapWatcher) SetDeadline(t time.Time) error {
	if w.closed.Load() {
		return os.ErrClosed
	}
	return w.poll.SetReadDeadline(t)
}

// Close ends a Read that waits and frees all.
func (w *MapWatcher) Close() error {
	if w.closed.Swap(true) {
		return nil
	}
	err := w.poll.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	for cpu := range w.cpus {
		err = errors.Join(err, w.drop(cpu))
	}
	return err
}

// drain takes what all the buffers hold.
func (w *MapWatcher) drain(epfd int) {
	var ready [64]unix.EpollEvent
	n, _ := unix.EpollWait(epfd, ready[:], 0) // rearms the events; an error would be EINTR
	for _, e := range ready[:max(n, 0)] {
		if cpu := int(e.Fd); e.Events&(unix.EPOLLHUP|unix.EPOLLERR) != 0 && w.cpus[cpu] != nil {
			w.drainCPU(w.cpus[cpu])
			_ = w.drop(cpu) // its CPU went offline
			w.checked = time.Time{}
		}
	}
	for _, c := range w.cpus {
		w.drainCPU(c)
	}
	if now := time.Now(); now.Sub(w.checked) >= cpuRecheck {
		if w.refresh() != nil { // descriptors ran out: what a new CPU maps is not seen
			w.lost = true
		}
	}
}

func (w *MapWatcher) drainCPU(c *cpuEvent) {
	whole := c.ring.drain(func(kind uint32, misc uint16, rec []byte) {
		switch kind {
		case perfRecordMmap2:
			var ev MapEvent
			if decodeMmap2(rec, misc, w.names, &ev) {
				w.pending = append(w.pending, ev)
			}
		case perfRecordLost, perfRecordLostSamp:
			w.lost = true
		}
	})
	w.lost = w.lost || !whole
}

// refresh opens an event on each CPU that has none. A CPU that came after the
// start may have seen mappings already, so that counts as a loss.
func (w *MapWatcher) refresh() error {
	w.checked = time.Now()
	cpus, err := w.online()
	if err != nil {
		return err
	}
	for _, cpu := range cpus {
		if w.cpus[cpu] != nil {
			continue
		}
		c, err := openCPU(cpu)
		if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO) {
			continue // it went offline again
		}
		if err != nil {
			return fmt.Errorf("perf event on CPU %d: %w", cpu, err)
		}
		w.cpus[cpu] = c
		ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(cpu)}
		if err := w.control(unix.EPOLL_CTL_ADD, c.fd, &ev); err != nil {
			return errors.Join(fmt.Errorf("perf event on CPU %d: epoll: %w", cpu, err), w.drop(cpu))
		}
		w.lost = true
	}
	return nil
}

func (w *MapWatcher) control(op, fd int, ev *unix.EpollEvent) (err error) {
	if e := w.raw.Control(func(epfd uintptr) { err = unix.EpollCtl(int(epfd), op, fd, ev) }); e != nil {
		return e
	}
	return err
}

func (w *MapWatcher) drop(cpu int) error {
	c := w.cpus[cpu]
	delete(w.cpus, cpu)
	return errors.Join(unix.Munmap(c.mem), unix.Close(c.fd)) // closing leaves the epoll set
}

// openCPU opens an event that counts nothing and reports executable mappings.
func openCPU(cpu int) (*cpuEvent, error) {
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_DUMMY,
		Size:        unix.PERF_ATTR_SIZE_VER5,
		Sample_type: unix.PERF_SAMPLE_TIME, // with SampleIDAll: the time behind each record
		Bits: unix.PerfBitMmap | unix.PerfBitMmap2 | unix.PerfBitSampleIDAll |
			unix.PerfBitWatermark | unix.PerfBitUseClockID,
		Wakeup:  1, // bytes: wake the reader for each record
		Clockid: unix.CLOCK_MONOTONIC,
	}
	fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	page := os.Getpagesize()
	data := max(page, watchPages*4096)
	mem, err := unix.Mmap(fd, 0, page+data, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("map its buffer: %w", err), unix.Close(fd))
	}
	ring, err := newPerfRing(mem, page)
	if err != nil {
		return nil, errors.Join(err, unix.Munmap(mem), unix.Close(fd))
	}
	return &cpuEvent{fd: fd, mem: mem, ring: ring}, nil
}

func onlineCPUs() ([]int, error) {
	b, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return nil, err
	}
	return parseCPUs(strings.TrimSpace(string(b)))
}

// maxCPUs is the most that a kernel can be built for.
const maxCPUs = 8192

// parseCPUs reads a list of ranges: "0-3,8".
func parseCPUs(list string) ([]int, error) {
	var cpus []int
	for part := range strings.SplitSeq(list, ",") {
		lo, rest, ok := number([]byte(part))
		hi := lo
		if ok && len(rest) > 0 {
			if rest[0] != '-' {
				ok = false
			} else if hi, rest, ok = number(rest[1:]); len(rest) > 0 {
				ok = false
			}
		}
		if !ok || hi < lo || hi >= maxCPUs || len(cpus) > 0 && int(lo) <= cpus[len(cpus)-1] {
			return nil, fmt.Errorf("list of CPUs %q: %w", list, errFormat)
		}
		for cpu := lo; cpu <= hi; cpu++ {
			cpus = append(cpus, int(cpu))
		}
	}
	return slices.Clip(cpus), nil
}
