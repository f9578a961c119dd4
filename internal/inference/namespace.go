package inference

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// dialIn connects to a port of the loopback addresses in a process's network namespace. The
// connection can be used outside of it.
func dialIn(ctx context.Context, pid uint32, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host != loopback {
		return nil, fmt.Errorf("connect to %s: not a loopback address", address)
	}
	theirs := fmt.Sprintf("/proc/%d/ns/net", pid)
	same, err := sameFile(theirs, "/proc/thread-self/ns/net")
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, errEnded
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errNamespace, err)
	case same:
		return dialLoopback(ctx, port)
	}
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result, 1)
	go func() { // on a thread of its own
		conn, err := enterAndDial(ctx, theirs, port)
		done <- result{conn, err}
	}()
	x := <-done
	return x.conn, x.err
}

// enterAndDial connects inside a network namespace. A socket belongs to the namespace in which it
// was opened. If the thread cannot return, it ends with its goroutine.
func enterAndDial(ctx context.Context, namespace, port string) (conn net.Conn, err error) {
	runtime.LockOSThread()
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("%w: %w", errNamespace, err)
	}
	defer own.Close()
	their, err := os.Open(namespace)
	if err == nil {
		defer their.Close()
		err = unix.Setns(int(their.Fd()), unix.CLONE_NEWNET)
	}
	if err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("%w: %w", errNamespace, err)
	}
	conn, err = dialLoopback(ctx, port)
	if unix.Setns(int(own.Fd()), unix.CLONE_NEWNET) == nil {
		runtime.UnlockOSThread()
	}
	return conn, err
}

// dialLoopback connects to a port by IPv4, then by IPv6. An address opens its socket on the calling
// thread, since there is nothing to resolve.
func dialLoopback(ctx context.Context, port string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp4", net.JoinHostPort("127.0.0.1", port))
	if err != nil && ctx.Err() == nil {
		if conn, other := d.DialContext(ctx, "tcp6", net.JoinHostPort("::1", port)); other == nil {
			return conn, nil
		}
	}
	return conn, err
}

func sameFile(a, b string) (bool, error) {
	x, err := os.Stat(a)
	if err != nil {
		return false, err
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y), err
}
