package label

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// sendTimeout bounds how long [Send] waits for a trace that does not read.
const sendTimeout = 2 * time.Second

// Send sends a message to the socket at a path, and waits until it has been read: a trace refuses
// messages of processes that have ended.
func Send(path string, m *Message) (err error) {
	if err := m.Check(); err != nil {
		return err
	}
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if len(text) > MaxMessage {
		return fmt.Errorf("the message has %d bytes; the limit is %d", len(text), MaxMessage)
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := c.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
		return err
	}
	if _, err = c.Write(text); err != nil {
		return err
	}
	return awaitRead(c)
}

// awaitRead waits until the receiver has read what was sent.
func awaitRead(c *net.UnixConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	late := time.Now().Add(sendTimeout)
	for pause := 100 * time.Microsecond; ; pause = min(2*pause, 20*time.Millisecond) {
		var left int
		if cerr := raw.Control(func(fd uintptr) { left, err = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) }); cerr != nil || err != nil {
			return errors.Join(cerr, err)
		}
		if left == 0 {
			return nil
		}
		if time.Now().After(late) {
			return fmt.Errorf("the trace has not read the labels within %s", sendTimeout)
		}
		time.Sleep(pause)
	}
}
