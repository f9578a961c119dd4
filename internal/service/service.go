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

// Manager is who started this process and wants to know how it does. The zero value is
// nobody, who is told nothing.
type Manager struct {
	socket   string
	watchdog time.Duration
}

// FromEnvironment returns the manager that the environment names: NOTIFY_SOCKET, a path
// or an abstract name after @, and WATCHDOG_USEC, which counts where WATCHDOG_PID is pid
// or absent.
func FromEnvironment(getenv func(string) string, pid int) Manager {
	m := Manager{socket: getenv("NOTIFY_SOCKET")}
	usec, err := strconv.ParseInt(getenv("WATCHDOG_USEC"), 10, 64)
	whose := getenv("WATCHDOG_PID")
	if err == nil && usec > 0 && (whose == "" || whose == strconv.Itoa(pid)) {
		m.watchdog = time.Duration(usec) * time.Microsecond
	}
	return m
}

// There tells whether there is somebody to tell.
func (m Manager) There() bool { return m.socket != "" }

// Watchdog is how often at least the manager wants to hear Alive; 0: never.
func (m Manager) Watchdog() time.Duration { return m.watchdog }

// Ready says that the service does what it is for, or does so again after Reloading.
func (m Manager) Ready(status string) error { return m.tell("READY=1", "STATUS="+line(status)) }

// Reloading says that the settings are read anew; Ready must follow.
func (m Manager) Reloading() error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return err
	}
	return m.tell("RELOADING=1", fmt.Sprintf("MONOTONIC_USEC=%d", now.Nano()/1000))
}

// Stopping says that the service ends.
func (m Manager) Stopping() error { return m.tell("STOPPING=1") }

// Alive keeps the watchdog quiet.
func (m Manager) Alive(status string) error { return m.tell("WATCHDOG=1", "STATUS="+line(status)) }

// tell sends one datagram. It does not wait for a manager that is busy.
func (m Manager) tell(words ...string) error {
	if m.socket == "" {
		return nil
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: m.socket, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("tell the service manager: %w", err)
	}
	if err = c.SetWriteDeadline(time.Now().Add(time.Second)); err == nil {
		_, err = c.Write([]byte(strings.Join(words, "\n")))
	}
	return errors.Join(err, c.Close())
}

// line makes a status one line.
func line(s string) string { return strings.Join(strings.Fields(s), " ") }
