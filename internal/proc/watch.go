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

// MapEvent reports that a process has just mapped a CUDA library.
type MapEvent struct {
	Time     int64 // CLOCK_MONOTONIC, ns
	PID, TID uint32
	Library  Library
}

// ErrLostMaps means that events may be missing: scan again.
var ErrLostMaps = errors.New("map events were lost")

// MapWatcher reports CUDA libraries soon after processes map them. It does not touch those
// processes. The kernel reports all executable mappings to a perf event on each CPU, and forks and
// exits with them, wanted or not. To avoid a wake-up for each, the caller calls Look now and then.
type MapWatcher struct {
	names  Names
	poll   *os.File // epoll over the events and found, itself in the runtime's poller
	raw    syscall.RawConn
	found  int // eventfd: Look has found something
	online func() ([]int, error)
	closed atomic.Bool

	mu       sync.Mutex // guards the fields below, never for long
	cpus     map[int]*cpuEvent
	checked  time.Time // when the list of CPUs was last compared
	lost     bool
	pending  []MapEvent
	returned []MapEvent // the last result of Read
}

type cpuEvent struct {
	fd   int
	mem  []byte
	ring perfRing
}

const (
	// watchPages of 4 KiB hold some 500 records per CPU. The buffer must fit perf_event_mlock_kb,
	// which applies without CAP_IPC_LOCK.
	watchPages = 16
	wakeBytes  = watchPages * 4096 / 2 // unread bytes that wake Read
	cpuRecheck = 5 * time.Second

	foundFD = -1 // in the epoll set, which has CPU numbers otherwise
)

// WatchMaps begins to watch. It does not report earlier mappings: use Scan. It needs CAP_PERFMON,
// or CAP_SYS_ADMIN before Linux 5.8. On error nothing stays open.
func WatchMaps(names Names) (*MapWatcher, error) { return watchMaps(names, OnlineCPUs) }

func watchMaps(names Names, online func() ([]int, error)) (*MapWatcher, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("watch mappings: epoll: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // so that the runtime polls it
		return nil, errors.Join(fmt.Errorf("watch mappings: epoll: %w", err), unix.Close(fd))
	}
	w := &MapWatcher{names: names, poll: os.NewFile(uintptr(fd), "epoll"), found: -1, cpus: map[int]*cpuEvent{}, online: online}
	err = w.open()
	if err == nil && len(w.cpus) == 0 {
		err = errors.New("no CPU has perf events")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("watch mappings: %w", err), w.Close())
	}
	w.lost = false
	return w, nil
}

func (w *MapWatcher) open() (err error) {
	if w.raw, err = w.poll.SyscallConn(); err != nil {
		return err
	}
	if err := w.poll.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	if w.found, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return err
	}
	if err := w.control(unix.EPOLL_CTL_ADD, w.found, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: foundFD}); err != nil {
		return err
	}
	return w.refresh()
}

// Look collects the new mappings of all processes, which Read then returns. Without new mappings it
// takes nanoseconds. It is safe for concurrent use.
func (w *MapWatcher) Look() {
	if !w.mu.TryLock() {
		return // another call is looking
	}
	defer w.mu.Unlock()
	if w.closed.Load() {
		return
	}
	had := w.some()
	w.drain()
	if !had && w.some() {
		_, _ = unix.Write(w.found, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
}

// some reports whether Read has something to return. mu is held.
func (w *MapWatcher) some() bool { return len(w.pending) > 0 || w.lost }

// Read returns all new events, which are valid until the next call. It blocks until Look has found an
// event, or until the kernel wakes it because a buffer is half full. It also returns when the deadline has passed
// (os.ErrDeadlineExceeded) or the watcher is closed (os.ErrClosed). ErrLostMaps means that the
// reader was too slow; Read can continue. Events of different CPUs may be out of order. One
// goroutine may wait.
func (w *MapWatcher) Read() ([]MapEvent, error) {
	for {
		if events, err := w.next(); len(events) > 0 || err != nil {
			return events, err
		}
		err := w.raw.Read(func(fd uintptr) bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.closed.Load() {
				return true
			}
			w.ready(int(fd))
			w.drain()
			return w.some()
		})
		if err != nil && !w.closed.Load() {
			return nil, err // os.ErrDeadlineExceeded stays unwrapped
		}
	}
}

// next returns the new events, or else an error, if there is one.
func (w *MapWatcher) next() ([]MapEvent, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed.Load():
		return nil, os.ErrClosed
	case len(w.pending) > 0:
		w.returned, w.pending = w.pending, w.returned[:0]
		return w.returned, nil
	case w.lost:
		w.lost = false
		return nil, ErrLostMaps
	}
	return nil, nil
}

// SetDeadline makes Read time out at t; the zero time means never. It may be called while Read
// waits.
func (w *MapWatcher) SetDeadline(t time.Time) error {
	if w.closed.Load() {
		return os.ErrClosed
	}
	return w.poll.SetReadDeadline(t)
}

// Close ends a waiting Read and releases everything.
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
	if w.found >= 0 {
		err = errors.Join(err, unix.Close(w.found))
	}
	return err
}

// ready handles the state of the events: it rearms them, and drops those of CPUs that went offline.
// mu is held.
func (w *MapWatcher) ready(epfd int) {
	var list [64]unix.EpollEvent
	n, _ := unix.EpollWait(epfd, list[:], 0) // an error would be EINTR
	for _, e := range list[:max(n, 0)] {
		cpu := int(e.Fd)
		switch {
		case cpu == foundFD:
			_, _ = unix.Read(w.found, make([]byte, 8))
		case e.Events&(unix.EPOLLHUP|unix.EPOLLERR) != 0 && w.cpus[cpu] != nil:
			w.drainCPU(w.cpus[cpu])
			_ = w.drop(cpu)
			w.checked = time.Time{}
		}
	}
}

// drain reads all buffers. mu is held.
func (w *MapWatcher) drain() {
	for _, c := range w.cpus {
		w.drainCPU(c)
	}
	if now := time.Now(); now.Sub(w.checked) >= cpuRecheck {
		if w.refresh() != nil { // out of descriptors: the mappings of a new CPU are missed
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

// refresh opens an event on each CPU that has none. A CPU that came online after the start may have
// missed mappings, so that counts as a loss.
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
		Sample_type: unix.PERF_SAMPLE_TIME, // with SampleIDAll: the time after each record
		Bits: unix.PerfBitMmap | unix.PerfBitMmap2 | unix.PerfBitSampleIDAll |
			unix.PerfBitWatermark | unix.PerfBitUseClockID,
		Wakeup:  wakeBytes,
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

// OnlineCPUs lists the CPUs that are online.
func OnlineCPUs() ([]int, error) {
	b, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return nil, err
	}
	return parseCPUs(strings.TrimSpace(string(b)))
}

// maxCPUs is the maximum number of CPUs of a kernel.
const maxCPUs = 8192

// parseCPUs parses a list of ranges: "0-3,8".
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
