package probes

import (
	"encoding/binary"
	"errors"
	"os"
)

// keptShare is which part of the ring of calls the ring of what answers rest on is large.
const keptShare = 4

// keptSize returns the bytes of kept_ring beside a call_ring of so many bytes.
func keptSize(ring int) int { return max(ring/keptShare, os.Getpagesize()) }

// rings are the two rings of records, read as one: call_ring and kept_ring of bpf/emit.h.
// A record of kept begins with the position to which calls had been written when the record
// was made. It is taken once calls has been read up to there. What a thread puts into calls
// after it lies behind that position, so the records of a thread come in the order in which
// it made them, and those of two threads as well where one saw what the other did.
type rings struct{ calls, kept *Ring }

// positionSize is how many bytes of a record of kept_ring are that position.
const positionSize = 8

// Drain is as [Ring.Drain], of both.
func (r rings) Drain(limit int, take func(record []byte)) (n int) {
	// calls first: a record of kept that was made before one of calls must be seen.
	calls, kept := r.calls.cursor(), r.kept.cursor()
	defer calls.close()
	defer kept.close()
	for n < limit {
		record, state := kept.peek(kept.end)
		if state == ringHeld {
			return n // it may belong before all that calls has
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

// Waiting is as [Ring.Waiting], of both: what was there at one time has been read once as
// much has been read, since both are read in one order. Only a writer that was preempted
// before it had room can be read ahead of that, by its record.
func (r rings) Waiting() (from, to uint64) {
	from, to = r.calls.Waiting()
	keptFrom, keptTo := r.kept.Waiting()
	return from + keptFrom, to + keptTo
}

// Close unmaps both. It is idempotent.
func (r rings) Close() error { return errors.Join(r.calls.Close(), r.kept.Close()) }
