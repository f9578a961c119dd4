package segment

import (
	"fmt"

	"ingero/internal/store/log"
	"ingero/internal/tick"
)

// An analysis may depend on how the stream was cut into batches, so a log records it: a frame of
// batch sizes precedes the frames whose records they split.

// batchSize is the number of records of each kind in a batch.
type batchSize struct{ Calls, Waits, Lives, Functions, Stacks, Ranges, Labels int }

// maxBatches is the most batches that one frame may describe.
const maxBatches = 1 << 16

// beginBatch starts a batch, unless b has nothing that a log keeps.
func (w *Writer) beginBatch(b *tick.Batch) {
	s := batchSize{Lives: len(b.Procs), Functions: len(b.Functions), Stacks: len(b.Stacks), Ranges: len(b.Ranges), Labels: len(b.Labels)}
	if len(w.batches) >= maxBatches {
		w.Cut()
	}
	if s != (batchSize{}) || len(b.Calls)+len(b.Waits) > 0 {
		w.batches = append(w.batches, s)
	}
}

// batch returns the current batch.
func (w *Writer) batch() *batchSize { return &w.batches[len(w.batches)-1] }

// putBatches ends the frame of batches. If open is set, the last batch continues in the next frame.
func (w *Writer) putBatches(open bool) {
	if len(w.batches) == 0 {
		return
	}
	version := uint8(1)
	for _, s := range w.batches {
		if s.Labels > 0 {
			version = 3
		} else if s.Ranges > 0 {
			version = max(version, 2)
		}
	}
	w.body = appendBatches(w.body[:0], w.batches, open, version)
	w.frame(frameBatches, version, w.body)
	w.batches = w.batches[:0]
	if open {
		w.batches = append(w.batches, batchSize{})
	}
}

func appendBatches(b []byte, list []batchSize, open bool, version uint8) []byte {
	last := uint64(0)
	if open {
		last = 1
	}
	b = appendUvarint(b, uint64(len(list))<<1|last)
	for _, s := range list {
		more := uint64(0)
		if s.Lives+s.Functions+s.Stacks+s.Ranges+s.Labels > 0 {
			more = 1
		}
		b = appendUvarint(appendUvarint(b, uint64(s.Calls)<<1|more), uint64(s.Waits))
		if more > 0 {
			b = appendUvarint(appendUvarint(appendUvarint(b, uint64(s.Lives)), uint64(s.Functions)), uint64(s.Stacks))
			if version > 1 {
				b = appendUvarint(b, uint64(s.Ranges))
			}
			if version > 2 {
				b = appendUvarint(b, uint64(s.Labels))
			}
		}
	}
	return b
}

func readBatches(body []byte, version uint8) (list []batchSize, open bool, err error) {
	r := reader{b: body}
	n := r.uint()
	open = n&1 != 0
	if n >>= 1; n > maxBatches || n > uint64(len(r.b)) {
		r.fail()
		n = 0
	}
	for range n {
		calls := r.uint()
		s := batchSize{Calls: int(min(calls>>1, frameCallsCap)), Waits: int(r.small())}
		if calls&1 != 0 {
			s.Lives, s.Functions, s.Stacks = int(r.small()), int(r.small()), int(r.small())
			if version > 1 {
				s.Ranges = int(r.small())
			}
			if version > 2 {
				s.Labels = int(r.small())
			}
		}
		list = append(list, s)
	}
	if r.bad || len(r.b) != 0 {
		return nil, false, fmt.Errorf("%w: batches", log.ErrCorrupt)
	}
	return list, open, nil
}
