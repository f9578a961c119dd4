package label

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode"
	"unicode/utf8"

	"ingero/internal/tick"
)

// MaxMessage bounds a message: bytes.
const MaxMessage = 4 << 10

// MaxKeys bounds the keys of a process, and those that a message sets or clears.
const MaxKeys = 16

// Message changes labels of a process, or of one of its threads. It clears first, then it sets.
type Message struct {
	PID  uint32 `json:"pid,omitempty"`  // 0: the sender, which must not have ended when its message is read
	TID  uint32 `json:"tid,omitempty"`  // 0: the whole process
	Time int64  `json:"time,omitempty"` // CLOCK_MONOTONIC, ns; 0: when it arrives

	Set   map[string]string `json:"set,omitempty"`
	Clear []string          `json:"clear,omitempty"`
}

// Check returns why a message is not valid.
func (m *Message) Check() error {
	if len(m.Set)+len(m.Clear) == 0 {
		return errors.New("no label to set or to clear")
	}
	if len(m.Set) > MaxKeys || len(m.Clear) > MaxKeys {
		return fmt.Errorf("more than %d labels", MaxKeys)
	}
	for _, key := range m.Clear {
		if err := checkKey(key); err != nil {
			return err
		}
	}
	for key, value := range m.Set {
		if err := checkKey(key); err != nil {
			return err
		}
		if value == "" || len(value) > tick.MaxLabelValue {
			return fmt.Errorf("the value of %s must have 1 to %d bytes", key, tick.MaxLabelValue)
		}
		if !utf8.ValidString(value) || bytes.ContainsFunc([]byte(value), unicode.IsControl) {
			return fmt.Errorf("the value of %s must be UTF-8 without control characters", key)
		}
	}
	return nil
}

func checkKey(key string) error {
	if tick.LabelKey(key) {
		return nil
	}
	return fmt.Errorf("the key %.40q must begin with a-z and have at most %d of a-z, 0-9, . and _", key, tick.MaxLabelKey)
}

// parse reads the messages of a datagram: one or several JSON objects.
func parse(b []byte) (out []Message, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	for {
		var m Message
		switch err := d.Decode(&m); {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, err
		}
		if err := m.Check(); err != nil {
			return nil, err
		}
		if out = append(out, m); len(out) > MaxKeys {
			return nil, fmt.Errorf("more than %d messages", MaxKeys)
		}
	}
}
