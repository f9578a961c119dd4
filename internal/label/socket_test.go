package label

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"ingero/internal/testkit"
	"ingero/internal/tick"
)

// TestMain makes this program a sender for the tests.
func TestMain(m *testing.M) {
	if path := os.Getenv("INGERO_TEST_SEND"); path != "" {
		var message Message
		err := json.Unmarshal([]byte(os.Getenv("INGERO_TEST_MESSAGE")), &message)
		if err == nil {
			err = Send(path, &message)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		_, _ = os.Stdin.Read(make([]byte, 1)) // lives until the test has seen its label
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func listen(t *testing.T, senders string) *Socket {
	t.Helper()
	dir, err := os.MkdirTemp("", "label") // a path of a socket has 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s, err := Listen(Options{Path: filepath.Join(dir, "s"), Senders: senders, Wall: func(ns int64) int64 { return ns }, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// changes waits for n changes.
func changes(t *testing.T, s *Socket, n int) (out []tick.Label) {
	t.Helper()
	testkit.Eventually(t, "changes of labels", func() bool {
		out = append(out, s.Drain()...)
		return len(out) >= n
	})
	return out
}

// refusals waits for n refused messages.
func refusals(t *testing.T, s *Socket, n uint64) (out []tick.Drop) {
	t.Helper()
	testkit.Eventually(t, "refused messages", func() bool {
		sum := uint64(0)
		out = s.Drops()
		for _, d := range out {
			sum += d.Count
		}
		return sum >= n
	})
	return out
}

func TestSocketKnowsTheSender(t *testing.T) {
	s := listen(t, Owner)
	before := monotonic()
	if err := Send(s.o.Path, &Message{Set: map[string]string{"step": "120"}}); err != nil {
		t.Fatal(err)
	}
	got := changes(t, s, 1)[0]
	if after := monotonic(); got.Time < before || got.Time > after {
		t.Errorf("at %d, not in [%d, %d]", got.Time, before, after)
	}
	if got.Time = 0; got != (tick.Label{PID: uint32(os.Getpid()), Key: "step", Value: "120"}) {
		t.Errorf("%+v", got)
	}
	if st, err := os.Stat(s.o.Path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
}

// The kernel translates the sender's PID, so the label of a container's process has its number on
// the host.
func TestSenderInAPIDNamespace(t *testing.T) {
	testkit.NeedRoot(t)
	s := listen(t, Owner)
	pid, stop := sendFrom(t, s, `{"set":{"tenant":"a"}}`, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID})
	defer stop()
	if got := changes(t, s, 1)[0]; got.PID != pid || got.TID != 0 || got.Value != "a" {
		t.Errorf("%+v, want process %d", got, pid)
	}
	pid, stop2 := sendFrom(t, s, `{"pid":1,"tid":1,"set":{"tenant":"b"}}`, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID})
	defer stop2()
	if got := changes(t, s, 1)[0]; got.PID != pid || got.TID != pid || got.Value != "b" {
		t.Errorf("%+v, want thread %d", got, pid)
	}
}

// Each thread of a process with many threads is found by its own number.
func TestThreadOfMany(t *testing.T) {
	const n = 300
	tids, end := make(chan int, n), make(chan struct{})
	defer close(end)
	for range n {
		go func() {
			runtime.LockOSThread() // it ends with the goroutine
			tids <- unix.Gettid()
			<-end
		}()
	}
	for range n {
		tid := uint32(<-tids)
		if got, _, ok := (procFS{}).thread(uint32(os.Getpid()), tid, true); !ok || got != tid {
			t.Fatalf("thread %d is %d, %v", tid, got, ok)
		}
	}
	if _, searched, ok := (procFS{}).thread(uint32(os.Getpid()), uint32(os.Getpid()), true); !ok || searched < 1+n/listPart || searched >= n {
		t.Errorf("the search for the first thread of %d counts as %d reads, %v", n, searched, ok)
	}
}

// A user whom the socket lets in may label no other user's process.
func TestSenderOfAnotherUser(t *testing.T) {
	testkit.NeedRoot(t)
	s := listen(t, All)
	other := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	_, stop := sendFrom(t, s, fmt.Sprintf(`{"pid":%d,"set":{"tenant":"a"}}`, os.Getpid()), other)
	defer stop()
	if got := refusals(t, s, 1); got[0].Reason != string(denied) {
		t.Errorf("%+v", got)
	}
	pid, stop2 := sendFrom(t, s, `{"set":{"tenant":"b"}}`, other)
	defer stop2()
	if got := changes(t, s, 1)[0]; got.PID != pid || got.Value != "b" {
		t.Errorf("%+v, want process %d", got, pid)
	}
	if err := os.Chmod(s.o.Path, 0o600); err != nil {
		t.Fatal(err)
	}
}

// sendFrom starts this program as a sender, which lives until stop.
func sendFrom(t *testing.T, s *Socket, message string, how *syscall.SysProcAttr) (pid uint32, stop func()) {
	t.Helper()
	exe := filepath.Join(filepath.Dir(s.o.Path), "sender")
	if _, err := os.Stat(exe); err != nil { // another user may not read the test's own
		own, err := os.ReadFile("/proc/self/exe")
		if err == nil {
			err = os.WriteFile(exe, own, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command(exe)
	c.Env = append(os.Environ(), "INGERO_TEST_SEND="+s.o.Path, "INGERO_TEST_MESSAGE="+message)
	c.SysProcAttr, c.Stderr = how, os.Stderr
	in, err := c.StdinPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return uint32(c.Process.Pid), func() {
		_ = in.Close()
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	}
}

// What was sent before Close is read, however late the reader is.
func TestCloseReadsWhatArrived(t *testing.T) {
	for range 20 {
		s := listen(t, Owner)
		c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: s.o.Path, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			if _, err := fmt.Fprintf(c, `{"set":{"step":"%d"}}`, i); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(s.Close(), c.Close()); err != nil {
			t.Fatal(err)
		}
		if got := s.Drain(); len(got) != 5 || got[4].Value != "4" {
			t.Fatalf("%+v", got)
		}
	}
}

// Send returns only once its message has been read: a trace refuses senders that have ended.
func TestSendWaitsForTheReader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "labels.sock")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	sent := make(chan error)
	go func() { sent <- Send(path, &Message{PID: 1, Set: map[string]string{"step": "1"}}) }()
	raw, err := l.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	arrived := raw.Read(func(fd uintptr) bool {
		_, _, err = unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		return err != unix.EAGAIN
	})
	if err := errors.Join(arrived, err); err != nil {
		t.Fatal(err)
	}
	for range 1000 { // a sender that does not wait returns meanwhile
		runtime.Gosched()
		select {
		case err := <-sent:
			t.Fatalf("Send returned before its message was read: %v", err)
		default:
		}
	}
	if _, err := l.Read(make([]byte, MaxMessage)); err != nil {
		t.Fatal(err)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
}

// What is not a message is counted, and the next one is read.
func TestSocketCountsWhatItRefuses(t *testing.T) {
	s := listen(t, Owner)
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: s.o.Path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	for _, text := range []string{"x", `{"set":{"a":"1"}}` + string(make([]byte, 2*MaxMessage))} {
		if _, err := c.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var sent error
	err = raw.Write(func(fd uintptr) bool { // descriptors are not taken
		sent = syscall.Sendmsg(int(fd), []byte(`{"set":{"a":"1"}}`), syscall.UnixRights(int(null.Fd())), nil, 0)
		return !errors.Is(sent, syscall.EAGAIN)
	})
	if err := errors.Join(err, sent); err != nil {
		t.Fatal(err)
	}
	if got := changes(t, s, 1)[0]; got.Key != "a" {
		t.Errorf("%+v", got)
	}
	if got := s.Drops(); len(got) != 1 || got[0] != (tick.Drop{Reason: string(malformed), Count: 2}) {
		t.Errorf("%+v", got)
	}
}

// A link that replaces the new socket gives nobody a right to the file that it leads to.
func TestLinkInPlaceOfSocket(t *testing.T) {
	s := listen(t, Owner)
	victim := filepath.Join(filepath.Dir(s.o.Path), "victim")
	err := errors.Join(os.WriteFile(victim, nil, 0o600), os.Remove(s.o.Path), os.Symlink(victim, s.o.Path))
	if err != nil {
		t.Fatal(err)
	}
	for _, s.o.Senders = range []string{All, "0"} {
		if err := s.open(); err == nil {
			t.Errorf("senders %s: the link is accepted", s.o.Senders)
		}
	}
	if st, err := os.Stat(victim); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
}

// A socket that a killed process left is replaced. One in use, and any other file, is not.
func TestListenReplacesOnlyDeadSockets(t *testing.T) {
	path := listen(t, Owner).o.Path
	if _, err := Listen(Options{Path: path}); !errors.As(err, new(*InUseError)) {
		t.Errorf("in use: %v", err)
	}
	dead := path + "2"
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: dead, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dead); err != nil {
		t.Fatal(err)
	}
	s, err := Listen(Options{Path: dead, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(dead); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Close: %v", err)
	}
	file := path + "3"
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(Options{Path: file}); err == nil {
		t.Error("a file was replaced")
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "x" {
		t.Errorf("%q, %v", text, err)
	}
}
