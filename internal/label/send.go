package label

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"
)

// sendTimeout bounds how long [Send] waits for a trace that does not read.
const sendTimeout = 2 * time.Second

// Send sends a message to the socket at a path.
func Send(path string, m *Message) (err error) {
	if err := m.Check(); err != nil {
		return err
	}
	if m.PID != 0 {
		m.PIDNS = pidNamespace()
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
	_, err = c.Write(text)
	return err
}
