package probes

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// wakeups receives the kernel's wake-ups of the readers of rings. For calls and kept records they
// come when a ring is half full, since one per record would double the cost of a call. For process
// events they come for the first record after everything was read. The Go runtime's poller waits for
// them: a thread that waits in a system call makes the runtime's monitor wake up thousands of times a
// second.
type wakeups struct {
	epoll *os.File // over the rings
	raw   syscall.RawConn
}

func newWakeups(rings ...*ebpf.Map) (*wakeups, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err == nil {
		err = unix.SetNonblock(fd, true) // so that the runtime polls it
	}
	if err != nil {
		return nil, fmt.Errorf("watch the ring: %w", err)
	}
	p := &wakeups{epoll: os.NewFile(uintptr(fd), "epoll")}
	for _, m := range rings { // edge-triggered: the level says that there is a record, which there always is
		err = errors.Join(err, unix.EpollCtl(fd, unix.EPOLL_CTL_ADD, m.FD(), &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(m.FD())}))
	}
	if err == nil {
		err = p.epoll.SetReadDeadline(time.Time{}) // fails if the runtime cannot poll it
	}
	if err == nil {
		p.raw, err = p.epoll.SyscallConn()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("watch the ring: %w", err), p.close())
	}
	return p, nil
}

// wait returns nil at a wake-up, [os.ErrClosed] after stop.
func (p *wakeups) wait() error {
	var err error
	waitErr := p.raw.Read(func(fd uintptr) bool {
		var events [2]unix.EpollEvent
		var n int
		n, err = unix.EpollWait(int(fd), events[:], 0)
		if errors.Is(err, unix.EINTR) {
			n, err = 1, nil // a wake-up too many does no harm
		}
		return n > 0 || err != nil
	})
	if errors.Is(waitErr, os.ErrDeadlineExceeded) {
		return os.ErrClosed
	}
	if err = cmp.Or(waitErr, err); err != nil {
		return fmt.Errorf("watch the ring: %w", err)
	}
	return nil
}

// stop ends the current and all later waits.
func (p *wakeups) stop() error { return p.epoll.SetReadDeadline(time.Unix(1, 0)) }

func (p *wakeups) close() error { return p.epoll.Close() }

// openRings maps the rings and opens their wake-ups. After an error, [Tracer.Close] closes what is
// open.
func (t *Tracer) openRings() (err error) {
	for _, x := range []struct {
		from *ebpf.Map
		to   **Ring
	}{{t.objects.CallRing, &t.rings.calls}, {t.objects.KeptRing, &t.rings.kept}, {t.objects.CriticalRing, &t.critical}} {
		if *x.to, err = newRing(x.from.FD(), int(x.from.MaxEntries())); err != nil {
			return err
		}
	}
	if t.pressure, err = newWakeups(t.objects.CallRing, t.objects.KeptRing); err != nil {
		return err
	}
	t.lives, err = newWakeups(t.objects.CriticalRing)
	return err
}

// WaitPressure waits until a ring that Drain reads is half full, and must be drained at once. It
// returns [os.ErrClosed] after StopLives. One goroutine may wait.
func (t *Tracer) WaitPressure() error { return t.pressure.wait() }

// WaitLives waits until DrainLives may have records. It returns [os.ErrClosed] after StopLives. One
// goroutine may wait.
func (t *Tracer) WaitLives() error { return t.lives.wait() }
