package segment

import (
	"fmt"
	"slices"

	"ingero/internal/store/log"
	"ingero/internal/tick"
)

// livesVersion returns the earliest version that can hold lives.
func livesVersion(lives []tick.ProcEvent) uint8 {
	if slices.ContainsFunc(lives, func(e tick.ProcEvent) bool { return e.Signal != 0 }) {
		return 2
	}
	return 1
}

func appendLives(b []byte, lives []tick.ProcEvent, version uint8) []byte {
	b = appendUvarint(b, uint64(len(lives)))
	prev := int64(0)
	for i := range lives {
		e := &lives[i]
		b = appendUvarint(b, zig(e.Time-prev))
		prev = e.Time
		b = append(b, byte(e.Kind))
		for _, v := range [...]uint32{e.PID, e.TID, e.Peer} {
			b = appendUvarint(b, uint64(v))
		}
		b = appendString(b, e.Comm)
		if version > 1 {
			b = append(b, e.Signal)
		}
	}
	return b
}

func readLives(dst []tick.ProcEvent, body []byte, version uint8) ([]tick.ProcEvent, error) {
	r := reader{b: body}
	at := int64(0)
	n := r.count()
	if n > maxLives {
		return dst[:0], fmt.Errorf("%w: invalid frame of %d process events", log.ErrCorrupt, n)
	}
	for range n {
		var e tick.ProcEvent
		at += r.int()
		e.Time = at
		if kind := r.bytes(1); kind != nil {
			e.Kind = tick.ProcKind(kind[0])
		}
		e.PID, e.TID, e.Peer, e.Comm = r.small(), r.small(), r.small(), r.string()
		if version > 1 {
			if b := r.bytes(1); b != nil {
				e.Signal = b[0]
			}
		}
		if r.bad {
			break
		}
		dst = append(dst, e)
	}
	if r.bad || len(r.b) != 0 {
		return dst[:0], fmt.Errorf("%w: invalid process events", log.ErrCorrupt)
	}
	return dst, nil
}
