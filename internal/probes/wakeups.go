package probes

import (
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// wakeups receives the kernel's wake-ups of the readers of rings. For calls and kept records they
// come when a ring is half full, since one per record would double the cost of a call. For process
// events they come for the first record after everything was read.
type wakeups struct{ epoll, end int }

func newWakeups(rings ...*ebpf.Map) (*wakeups, error) {
	p := &wakeups{epoll: -1, end: -1}
	var err error
	if p.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("watch the ring: %w", err)
	}
	if p.end, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return nil, errors.Join(fmt.Errorf("watch the ring: %w", err), p.close())
	}
	watched := map[int]uint32{p.end: unix.EPOLLIN}
	for _, m := range rings { // edge-triggered: the level says that there is a record, which there always is
		watched[m.FD()] = unix.EPOLLIN | unix.EPOLLET
	}
	for fd, events := range watched {
		if err := unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)}); err != nil {
			return nil, errors.Join(fmt.Errorf("watch the ring: %w", err), p.close())
		}
	}
	return p, nil
}

// wait returns nil at a wake-up, [os.ErrClosed] after stop.
func (p *wakeups) wait() error {
	var events [3]unix.EpollEvent
	for {
		n, err := unix.EpollWait(p.epoll, events[:], -1)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("watch the ring: %w", err)
		}
		for _, e := range events[:n] {
			if int(e.Fd) == p.end {
				return os.ErrClosed
			}
		}
		return nil
	}
}

// stop ends the current and all later waits.
func (p *wakeups) stop() error {
	_, err := unix.Write(p.end, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	return err
}

func (p *wakeups) close() error {
	var errs []error
	for _, fd := range []*int{&p.epoll, &p.end} {
		if *fd >= 0 {
			errs = append(errs, unix.Close(*fd))
			*fd = -1
		}
	}
	return errors.Join(errs...)
}

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
