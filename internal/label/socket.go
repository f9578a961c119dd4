package label

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"os/user"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ingero/internal/tick"
)

// Options configure a socket. Path is required.
type Options struct {
	Path string
	// Senders is who may send: "owner" (or ""): the tracer's user and root; "all": every user; else
	// a group, by name or number.
	Senders string
	Wall    func(mono int64) int64 // converts CLOCK_MONOTONIC to Unix ns
	Log     *slog.Logger
}

// All users may send.
const All = "all"

// Owner only: the tracer's user, and root, may send.
const Owner = "owner"

// Bounds of the reading goroutine.
const (
	readSecond = 2000        // messages and changes a second; further ones wait in the kernel, and then at their senders
	maxFailed  = 16          // reads that fail one after the other
	sweepEvery = time.Second // also the longest time for which a label outlives its process
)

// Socket receives messages. Its methods are safe for concurrent use.
type Socket struct {
	o    Options
	conn *net.UnixConn
	book book
	done chan struct{} // closed when the reading goroutine has ended
	over chan struct{} // closed to end it
	stop func() error

	mu      sync.Mutex
	waiting []tick.Label
	refused map[reason]uint64
}

// InUseError means that another process listens at the path.
type InUseError struct{ Path string }

// Error names the path.
func (e *InUseError) Error() string { return e.Path + ": another process listens there" }

// Listen opens a socket. It replaces the socket that a killed process of this user has left.
func Listen(o Options) (*Socket, error) {
	if err := free(o.Path); err != nil {
		return nil, err
	}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: o.Path, Net: "unixgram"})
	if err != nil {
		return nil, err
	}
	s := &Socket{o: o, conn: conn, done: make(chan struct{}), over: make(chan struct{}), refused: map[reason]uint64{},
		book: book{procs: procFS{}, trusted: uint32(os.Geteuid()), all: map[uint32]*process{}}}
	s.stop = sync.OnceValue(func() error {
		close(s.over)
		err := conn.SetReadDeadline(time.Now()) // wakes the reader, which then takes what has arrived
		<-s.done
		return errors.Join(err, conn.Close(), remove(o.Path))
	})
	if err := s.open(); err != nil {
		return nil, errors.Join(err, conn.Close(), remove(o.Path))
	}
	go s.read()
	return s, nil
}

// own reports whether a file is a socket of this user.
func own(st *unix.Stat_t) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFSOCK && st.Uid == uint32(os.Geteuid())
}

func notOwn(path string) error { return fmt.Errorf("%s: the file is not a socket of this user", path) }

// free removes a socket that nobody listens on.
func free(path string) error {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return nil // bind reports what is wrong
	}
	if !own(&st) {
		return notOwn(path)
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err == nil {
		return errors.Join(&InUseError{path}, c.Close())
	}
	return remove(path)
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// open lets the senders in, and makes the kernel pass on who they are.
func (s *Socket) open() error {
	raw, err := s.conn.SyscallConn()
	if err != nil {
		return err
	}
	if cerr := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSCRED, 1) }); cerr != nil || err != nil {
		return errors.Join(cerr, err)
	}
	switch s.o.Senders {
	case "", Owner:
		return s.permit(0o600, -1)
	case All:
		return s.permit(0o666, -1) // the kernel verifies each sender
	}
	gid, err := group(s.o.Senders)
	if err != nil {
		return err
	}
	return s.permit(0o660, gid)
}

// permit sets the group of the socket's file, unless gid is -1, and its mode. The owner of the directory may
// have put a link in its place.
func (s *Socket) permit(mode os.FileMode, gid int) error {
	fd, err := unix.Open(s.o.Path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: s.o.Path, Err: err}
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &os.PathError{Op: "stat", Path: s.o.Path, Err: err}
	}
	if !own(&st) {
		return notOwn(s.o.Path)
	}
	if err := unix.Fchownat(fd, "", -1, gid, unix.AT_EMPTY_PATH); err != nil {
		return &os.PathError{Op: "chown", Path: s.o.Path, Err: err}
	}
	return os.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), mode)
}

func group(name string) (int, error) {
	if n, err := strconv.Atoi(name); err == nil && n >= 0 {
		return n, nil
	}
	g, err := user.LookupGroup(name)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(g.Gid)
}

// read reads until the socket is closed.
func (s *Socket) read() {
	defer close(s.done)
	buf, oob := make([]byte, MaxMessage+1), make([]byte, unix.CmsgSpace(unix.SizeofUcred)) // without room for descriptors, the kernel closes them
	next, n, failed := time.Now().Add(sweepEvery), 0, 0
	raw, rawErr := s.conn.SyscallConn()
	for rawErr == nil {
		if n >= readSecond { // the rest of the second is for others
			n = s.pause(next)
		}
		err := s.conn.SetReadDeadline(next)
		if err != nil || s.closing() {
			s.rest(raw, buf, oob)
			return
		}
		changed, err := s.receive(raw, buf, oob, true)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded) && s.closing():
			s.rest(raw, buf, oob)
			return
		case errors.Is(err, os.ErrDeadlineExceeded):
			s.queue(s.book.sweep(monotonic()))
			next, n = time.Now().Add(sweepEvery), 0
			continue
		case err != nil:
			s.refuse(unreadable)
			if failed++; failed > maxFailed {
				s.o.Log.Warn("labels are no longer read", "error", err)
				return
			}
			continue
		}
		failed = 0
		n += 1 + changed
	}
}

// rest reads what has arrived, without waiting.
func (s *Socket) rest(raw syscall.RawConn, buf, oob []byte) {
	for range readSecond {
		if _, err := s.receive(raw, buf, oob, false); err != nil {
			return
		}
	}
}

// receive takes the next datagram. If wait is set, it waits for one until the deadline; otherwise deadlines
// do not count, since Close may set one at any time. It returns the number of changes. The datagram leaves the queue only after the look at its sender, which may wait for that: see [Send].
func (s *Socket) receive(raw syscall.RawConn, buf, oob []byte, wait bool) (n int, err error) {
	var size, oobn, flags int
	var got error
	peek := func(fd uintptr) {
		for got = unix.EINTR; got == unix.EINTR; {
			size, oobn, flags, _, got = unix.Recvmsg(int(fd), buf, oob, unix.MSG_PEEK|unix.MSG_DONTWAIT)
		}
	}
	if wait {
		err = raw.Read(func(fd uintptr) bool {
			peek(fd)
			return got != unix.EAGAIN
		})
	} else {
		err = raw.Control(peek)
	}
	if err = cmp.Or(err, got); err != nil {
		return 0, err
	}
	n = s.datagram(buf[:size], oob[:oobn], flags)
	err = raw.Control(func(fd uintptr) { // also after the deadline
		for got = unix.EINTR; got == unix.EINTR; {
			_, _, _, _, got = unix.Recvmsg(int(fd), buf[:1], nil, unix.MSG_DONTWAIT)
		}
	})
	return n, cmp.Or(err, got)
}

func (s *Socket) closing() bool {
	select {
	case <-s.over:
		return true
	default:
		return false
	}
}

// pause waits until the second is over.
func (s *Socket) pause(until time.Time) int {
	t := time.NewTimer(time.Until(until))
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.over:
	}
	return 0
}

// datagram takes one datagram, and returns the number of changes.
func (s *Socket) datagram(b, oob []byte, flags int) (n int) {
	from, ok := credentials(oob)
	if !ok || from.pid == 0 {
		s.refuse(denied) // a process that this PID namespace does not have
		return 0
	}
	list, err := parse(b)
	if err != nil || len(b) > MaxMessage || flags&unix.MSG_TRUNC != 0 {
		s.refuse(malformed)
		return 0
	}
	owner := s.o.Senders == "" || s.o.Senders == Owner
	now := monotonic()
	for i := range list {
		if owner && from.uid != 0 && from.uid != s.book.trusted {
			s.refuse(denied)
			continue
		}
		if s.full() {
			s.refuse(notTaken)
			continue
		}
		changes, why := s.book.accept(from, &list[i], now)
		if why != "" {
			s.refuse(why)
			continue
		}
		s.queue(changes)
		n += len(changes)
	}
	return n
}

// credentials returns the sender that the kernel verified.
func credentials(oob []byte) (from sender, ok bool) {
	all, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return from, false
	}
	for i := range all {
		if c, err := unix.ParseUnixCredentials(&all[i]); err == nil {
			from, ok = sender{uint32(c.Pid), c.Uid}, true
		}
	}
	return from, ok
}

func monotonic() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // never fails
	return t.Nano()
}

func (s *Socket) refuse(why reason) {
	s.mu.Lock()
	s.refused[why]++
	s.mu.Unlock()
}

func (s *Socket) full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting) >= maxWaiting
}

// queue adds changes. What ends is always added.
func (s *Socket) queue(list []tick.Label) {
	for i := range list {
		list[i].Time = s.o.Wall(list[i].Time)
	}
	s.mu.Lock()
	s.waiting = append(s.waiting, list...)
	s.mu.Unlock()
}

// Drain returns the changes since the last call. Times are Unix nanoseconds.
func (s *Socket) Drain() []tick.Label {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.waiting
	s.waiting = nil
	return out
}

// Drops returns the refused messages by reason, as far as there were any.
func (s *Socket) Drops() (out []tick.Drop) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, why := range slices.Sorted(maps.Keys(s.refused)) {
		out = append(out, tick.Drop{Reason: string(why), Count: s.refused[why]})
	}
	return out
}

// Close stops listening and removes the socket. What has arrived can still be drained. It is
// idempotent.
func (s *Socket) Close() error { return s.stop() }
