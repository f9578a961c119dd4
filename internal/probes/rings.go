package probes

import (
	"encoding/binary"
	"errors"
	"os"
)

// keptShare is the size of the call ring divided by that of the kept ring, whose records answers
// depend on.
const keptShare = 4

// keptSize returns the bytes of kept_ring for a call_ring of the given size.
func keptSize(ring int) int { return max(ring/keptShare, os.Getpagesize()) }

// rings reads the two rings of records as one: call_ring and kept_ring of bpf/emit.h. A record of
// kept begins with the write position of calls when the record was made. It is read once calls has
// been read up to there. A thread's later records in calls are behind that position. So the records
// of a thread are read in order, as are those of two threads if one saw what the other did.
type rings struct{ calls, kept *Ring }

// positionSize is the size of that position in a record of kept_ring, in bytes.
const positionSize = 8

// Drain is [Ring.Drain] for both rings.
func (r rings) Drain(limit int, take func(record []byte)) (n int) {
	// calls first: a record of kept that precedes one of calls must be seen.
	calls, kept := r.calls.cursor(), r.kept.cursor()
	defer calls.close()
	defer kept.close()
	for n < limit {
		record, state := kept.peek(kept.end)
		if state == ringHeld {
			return n // it may precede all records in calls
		}
		until, late := calls.end, true
		if state == ringReady && len(record) >= positionSize {
			after := binary.NativeEndian.Uint64(record)
			until, late = min(after, calls.end), after > calls.end
		}
		for ; n < limit && calls.pos < until; n++ {
			b, state := calls.peek(until)
			if state == ringHeld {
				return n
			}
			if state == ringRead {
				break
			}
			take(b)
			calls.next()
		}
		if late || n >= limit {
			return n
		}
		take(record[positionSize:])
		kept.next()
		n++
	}
	return n
}

// Waiting is [Ring.Waiting] for the bytes of both rings. Everything unread at one time has been
// read once that many bytes have been, since both rings are read in one order. The exception is a
// record whose writer was preempted before its reservation: it may be read ahead of older ones.
func (r rings) Waiting() (from, to uint64) {
	from, to = r.calls.Waiting()
	keptFrom, keptTo := r.kept.Waiting()
	return from + keptFrom, to + keptTo
}

// Close unmaps both rings. It is idempotent.
func (r rings) Close() error { return errors.Join(r.calls.Close(), r.kept.Close()) }
