package probes

import (
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// wakeups are those that the kernel sends to the readers of rings: of calls and of what
// answers rest on when one is half full, since one for each record would double the price of
// a call; of the lives of processes for what comes after all was read.
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
	for _, m := range rings { // by edge: the level says that there is a record, which there always is
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

// stop ends a wait, now and later.
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

// openRings maps the rings and listens to their wake-ups. What an error leaves open is closed
// by [Tracer.Close].
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

// WaitPressure waits until one of the rings that Drain reads is half full and is to be drained
// at once. It returns [os.ErrClosed] after StopLives. One goroutine may wait.
func (t *Tracer) WaitPressure() error { return t.pressure.wait() }

// WaitLives waits until something may be there for DrainLives. It returns
// [os.ErrClosed] after StopLives. One goroutine may wait.
func (t *Tracer) WaitLives() error { return t.lives.wait() }
