package segment

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"

	"ingero/internal/store/log"
	"ingero/internal/wire"
)

// Rewrite copies a segment's readable parts, and marks the missing ones. A sealed segment gets an
// index.
func Rewrite(to io.Writer, from io.ReaderAt, c *Checked, size int64) error {
	s := &sealer{to: bufio.NewWriterSize(to, 1<<20), number: c.Head.First}
	if err := s.prepare(); err != nil {
		return err
	}
	if err := s.write([]byte(log.Magic)); err != nil {
		return err
	}
	f := log.Reader{From: from, Offset: int64(len(log.Magic)), Size: size}
	bad := c.Bad
	if c.Err != nil { // without a start
		head, err := json.Marshal(&c.Head)
		if err == nil {
			err = s.writeFrame(frameSession, 1, head)
		}
		if f.Offset = 0; err != nil {
			return err
		}
	}
	for {
		if len(bad) > 0 && bad[0].At <= f.Offset {
			if err := s.leave(&bad[0]); err != nil {
				return err
			}
			f.Offset, bad = damageEnd(&bad[0]), bad[1:]
			continue
		}
		kind, version, body, err := f.Next()
		if err == nil && kind != frameIndex {
			if err := s.copy(kind, version, body); err != nil {
				return err
			}
			continue
		}
		// Only known damage follows the last whole frame.
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, log.ErrCorrupt) {
			return err
		}
		if c.Sealed {
			return s.end()
		}
		return s.to.Flush()
	}
}

// copy writes a frame unchanged.
func (s *sealer) copy(kind log.Kind, version uint8, body []byte) error {
	switch kind {
	case frameCalls:
		return s.putCalls(version, body)
	case frameWaits:
		n, _, _ := span(body)
		s.index.waits += uint64(n)
	case frameLost:
		return s.lost(version, body)
	}
	return s.writeFrame(kind, version, body)
}

// leave marks a missing part.
func (s *sealer) leave(d *wire.Damage) error {
	body, err := json.Marshal(lostJSON{Bytes: d.Bytes, Calls: uint64(max(d.Calls, 0))})
	if err != nil {
		return err
	}
	return s.lost(latest(frameLost), body)
}
