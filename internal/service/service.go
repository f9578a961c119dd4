package service

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Manager is the service manager (systemd) that started this process and wants its state. The zero
// value is no manager: its methods do nothing.
type Manager struct {
	socket   string
	watchdog time.Duration
}

// FromEnvironment returns the manager that the environment names. NOTIFY_SOCKET is a path, or an
// abstract name after @. WATCHDOG_USEC applies if WATCHDOG_PID is pid or absent.
func FromEnvironment(getenv func(string) string, pid int) Manager {
	m := Manager{socket: getenv("NOTIFY_SOCKET")}
	usec, err := strconv.ParseInt(getenv("WATCHDOG_USEC"), 10, 64)
	whose := getenv("WATCHDOG_PID")
	if err == nil && usec > 0 && (whose == "" || whose == strconv.Itoa(pid)) {
		m.watchdog = time.Duration(usec) * time.Microsecond
	}
	return m
}

// There reports whether there is a manager.
func (m Manager) There() bool { return m.socket != "" }

// Watchdog returns the maximum time between two calls of Alive; 0: no limit.
func (m Manager) Watchdog() time.Duration { return m.watchdog }

// Ready reports that the service works, or works again after Reloading.
func (m Manager) Ready(status string) error { return m.send("READY=1", "STATUS="+line(status)) }

// Reloading reports that the service reads its settings again. The caller must call Ready afterwards.
func (m Manager) Reloading() error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return err
	}
	return m.send("RELOADING=1", fmt.Sprintf("MONOTONIC_USEC=%d", now.Nano()/1000))
}

// Stopping reports that the service ends.
func (m Manager) Stopping() error { return m.send("STOPPING=1") }

// Alive resets the watchdog.
func (m Manager) Alive(status string) error { return m.send("WATCHDOG=1", "STATUS="+line(status)) }

// send sends one datagram. It does not wait for a busy manager.
func (m Manager) send(words ...string) error {
	if m.socket == "" {
		return nil
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: m.socket, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	if err = c.SetWriteDeadline(time.Now().Add(time.Second)); err == nil {
		_, err = c.Write([]byte(strings.Join(words, "\n")))
	}
	return errors.Join(err, c.Close())
}

// line makes a status one line.
func line(s string) string { return strings.Join(strings.Fields(s), " ") }
