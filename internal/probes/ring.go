package probes

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Layout of a record's header in a BPF ring (kernel/bpf/ringbuf.c).
const (
	ringBusy    = 1 << 31
	ringDiscard = 1 << 30
	ringHeader  = 8
	ringBatch   = 512 << 10 // bytes after which the kernel gets its space back
)

// Ring reads the records of a BPF ring buffer in place. One goroutine may read at a time.
type Ring struct {
	consumer []byte // page with the consumer's position, shared with the kernel
	producer []byte // page with the producer's position, then the data, mapped twice
	data     []byte
	mask     uint64
}

// newRing maps the ring with file descriptor fd and size bytes, a power of two.
func newRing(fd, size int) (*Ring, error) {
	page := os.Getpagesize()
	if size < page || size&(size-1) != 0 {
		return nil, fmt.Errorf("map ring: size %d is not a power of two of pages", size)
	}
	consumer, err := unix.Mmap(fd, 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map ring: %w", err)
	}
	producer, err := unix.Mmap(fd, int64(page), page+2*size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("map ring: %w", err), unix.Munmap(consumer))
	}
	return &Ring{consumer: consumer, producer: producer, data: producer[page:], mask: uint64(size - 1)}, nil
}

// ringState is the state of a position in a ring.
type ringState int

const (
	ringRead  ringState = iota // no unread record
	ringReady                  // a complete record
	ringHeld                   // an incomplete record, of a preempted writer
)

// cursor reads the records that a ring has when the cursor is made.
type cursor struct {
	ring      *Ring
	pos, end  uint64
	storedPos uint64 // position last stored for the kernel
	size      uint64 // of the record at pos, including its header
}

func (r *Ring) cursor() cursor {
	pos := atomic.LoadUint64((*uint64)(unsafe.Pointer(&r.consumer[0])))
	return cursor{r, pos, atomic.LoadUint64((*uint64)(unsafe.Pointer(&r.producer[0]))), pos, 0}
}

// peek returns the next record before a position, skipping discarded ones. The bytes belong to the
// kernel and are valid until next.
func (c *cursor) peek(until uint64) ([]byte, ringState) {
	for c.pos < until {
		off := c.pos & c.ring.mask
		head := atomic.LoadUint32((*uint32)(unsafe.Pointer(&c.ring.data[off])))
		size := uint64(head &^ (ringBusy | ringDiscard))
		if head&ringBusy != 0 || size > c.ring.mask-ringHeader { // the latter: corrupt ring
			return nil, ringHeld
		}
		c.size = (size + ringHeader + 7) &^ 7
		if head&ringDiscard == 0 {
			return c.ring.data[off+ringHeader : off+ringHeader+size], ringReady
		}
		c.next()
	}
	return nil, ringRead
}

// next skips the record that peek returned.
func (c *cursor) next() {
	if c.pos += c.size; c.pos-c.storedPos >= ringBatch {
		c.close()
	}
}

// close stores the read position for the kernel.
func (c *cursor) close() {
	if c.pos != c.storedPos {
		atomic.StoreUint64((*uint64)(unsafe.Pointer(&c.ring.consumer[0])), c.pos)
		c.storedPos = c.pos
	}
}

// Drain calls take for each complete record, at most limit of them, and returns their number. The
// bytes belong to the kernel and are valid during the call only. An incomplete record of a
// preempted writer ends the drain; the next call continues there.
func (r *Ring) Drain(limit int, take func(record []byte)) int {
	c, n := r.cursor(), 0
	defer c.close()
	for ; n < limit; n++ {
		record, state := c.peek(c.end)
		if state != ringReady {
			break
		}
		take(record)
		c.next()
	}
	return n
}

// Waiting returns the positions from and to which unread records wait, in bytes since the ring was
// created.
func (r *Ring) Waiting() (from, to uint64) {
	from = atomic.LoadUint64((*uint64)(unsafe.Pointer(&r.consumer[0])))
	return from, atomic.LoadUint64((*uint64)(unsafe.Pointer(&r.producer[0])))
}

// Used returns the number of unread bytes.
func (r *Ring) Used() uint64 {
	from, to := r.Waiting()
	return to - from
}

// Close unmaps the ring. It is idempotent.
func (r *Ring) Close() error {
	if r == nil || r.consumer == nil {
		return nil
	}
	err := errors.Join(unix.Munmap(r.consumer), unix.Munmap(r.producer))
	r.consumer, r.producer, r.data = nil, nil, nil
	return err
}
