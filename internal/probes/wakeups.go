package probes

import (
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// wakeups are those that the kernel sends to the readers of a ring: of calls when it is
// half full, since one for each record would double the price of a call; of the lives of
// processes for what comes after all was read.
type wakeups struct{ epoll, end int }

func newWakeups(ring int) (*wakeups, error) {
	p := &wakeups{epoll: -1, end: -1}
	var err error
	if p.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("watch the ring: %w", err)
	}
	if p.end, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return nil, errors.Join(fmt.Errorf("watch the ring: %w", err), p.close())
	}
	// By edge: the level says that there is a record, which there always is.
	for fd, events := range map[int]uint32{ring: unix.EPOLLIN | unix.EPOLLET, p.end: unix.EPOLLIN} {
		if err := unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)}); err != nil {
			return nil, errors.Join(fmt.Errorf("watch the ring: %w", err), p.close())
		}
	}
	return p, nil
}

// wait returns nil at a wake-up, [os.ErrClosed] after stop.
func (p *wakeups) wait() error {
	var events [2]unix.EpollEvent
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

// openRing maps a ring and listens to its wake-ups. On error what there is is returned too.
func openRing(m *ebpf.Map) (*Ring, *wakeups, error) {
	r, err := newRing(m.FD(), int(m.MaxEntries()))
	if err != nil {
		return nil, nil, err
	}
	w, err := newWakeups(m.FD())
	return r, w, err
}

// WaitPressure waits until the ring of calls is half full and is to be drained at
// once. It returns [os.ErrClosed] after StopLives. One goroutine may wait.
func (t *Tracer) WaitPressure() error { return t.pressure.wait() }

// WaitLives waits until something may be there for DrainLives. It returns
// [os.ErrClosed] after StopLives. One goroutine may wait.
func (t *Tracer) WaitLives() error { return t.lives.wait() }
