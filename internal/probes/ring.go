package probes

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Bits of a record's header in a BPF ring (kernel/bpf/ringbuf.c).
const (
	ringBusy    = 1 << 31
	ringDiscard = 1 << 30
	ringHeader  = 8
	ringBatch   = 512 << 10 // bytes after which the kernel gets its room back
)

// Ring reads the records of a BPF ring buffer where they lie. One goroutine may
// read at a time.
type Ring struct {
	consumer []byte // page with the consumer's position, shared with the kernel
	producer []byte // page with the producer's position, then the data, twice
	data     []byte
	mask     uint64
}

// newRing maps the ring with file descriptor fd and size bytes, a power of two.
func newRing(fd, size int) (*Ring, error) {
	page := os.Getpagesize()
	if size < page || size&(size-1) != 0 {
		return nil, fmt.Errorf("map ring: size %d is no power of two of pages", size)
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

// ringState says what is at a place of a ring.
type ringState int

const (
	ringRead  ringState = iota // all there was has been read
	ringReady                  // a record
	ringHeld                   // a record that is not complete, of a preempted writer
)

// cursor reads what a ring has when it is made.
type cursor struct {
	ring     *Ring
	pos, end uint64
	told     uint64 // what the kernel knows of pos
	size     uint64 // of the record at pos, with its header
}

func (r *Ring) cursor() cursor {
	pos := atomic.LoadUint64((*uint64)(unsafe.Pointer(&r.consumer[0])))
	return cursor{r, pos, atomic.LoadUint64((*uint64)(unsafe.Pointer(&r.producer[0]))), pos, 0}
}

// peek returns the next record before a position; discarded ones are passed over. The bytes
// are the kernel's and valid until next.
func (c *cursor) peek(until uint64) ([]byte, ringState) {
	for c.pos < until {
		off := c.pos & c.ring.mask
		head := atomic.LoadUint32((*uint32)(unsafe.Pointer(&c.ring.data[off])))
		size := uint64(head &^ (ringBusy | ringDiscard))
		if head&ringBusy != 0 || size > c.ring.mask-ringHeader { // the latter: not a ring any more
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

// next passes over the record that was peeked at.
func (c *cursor) next() {
	if c.pos += c.size; c.pos-c.told >= ringBatch {
		c.close()
	}
}

// close tells the kernel how far the ring has been read.
func (c *cursor) close() {
	if c.pos != c.told {
		atomic.StoreUint64((*uint64)(unsafe.Pointer(&c.ring.consumer[0])), c.pos)
		c.told = c.pos
	}
}

// Drain calls take for each record that is complete, at most limit of them, and
// returns how many there were. The bytes are the kernel's and valid during the
// call only. A record of a preempted writer ends the round; it and what follows
// come with the next.
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

// Waiting returns from where to where records wait to be read, in bytes since the ring was
// made.
func (r *Ring) Waiting() (from, to uint64) {
	from = atomic.LoadUint64((*uint64)(unsafe.Pointer(&r.consumer[0])))
	return from, atomic.LoadUint64((*uint64)(unsafe.Pointer(&r.producer[0])))
}

// Used returns how many bytes wait to be read.
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
