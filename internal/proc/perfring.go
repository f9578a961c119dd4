package proc

import (
	"encoding/binary"
	"errors"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// perfRing reads the buffer of one perf event, laid out as in linux/perf_event.h: a control page,
// then a power of two of data bytes. The kernel moves head, the reader tail; both only grow.
type perfRing struct {
	head, tail *uint64
	data       []byte
	scratch    []byte // for a record that wraps around the end
}

var errRing = errors.New("not a perf buffer")

// newPerfRing returns a reader of a perf event's mapped memory: a page and the data.
func newPerfRing(mem []byte, page int) (perfRing, error) {
	const head, tail = unsafe.Offsetof(unix.PerfEventMmapPage{}.Data_head), unsafe.Offsetof(unix.PerfEventMmapPage{}.Data_tail)
	n := len(mem) - page
	if page < int(unsafe.Sizeof(unix.PerfEventMmapPage{})) || n < 8 || n&(n-1) != 0 {
		return perfRing{}, errRing
	}
	return perfRing{
		head: (*uint64)(unsafe.Pointer(&mem[head])),
		tail: (*uint64)(unsafe.Pointer(&mem[tail])),
		data: mem[page:],
	}, nil
}

// maxRecord is the size of the longest record: a path and its header.
const maxRecord = 4096 + 128

// drain passes each record, header included, to fn, which must not keep it. It returns false when
// records may be missing: the buffer was invalid and the rest was skipped, or it was too full for
// another record. The kernel reports a loss only with the next record that fits.
func (r *perfRing) drain(fn func(kind uint32, misc uint16, record []byte)) (whole bool) {
	head, tail := atomic.LoadUint64(r.head), atomic.LoadUint64(r.tail)
	defer func() { atomic.StoreUint64(r.tail, head) }()
	size := uint64(len(r.data))
	whole = head-tail+maxRecord <= size
	for tail != head {
		left := head - tail
		at := tail & (size - 1)
		if left > size || left < 8 || at > size-8 { // records are multiples of 8 bytes
			return false
		}
		n := uint64(binary.NativeEndian.Uint16(r.data[at+6:]))
		if n < 8 || n > left {
			return false
		}
		record := r.data[at:min(at+n, size)]
		if at+n > size {
			r.scratch = append(append(r.scratch[:0], record...), r.data[:at+n-size]...)
			record = r.scratch
		}
		fn(binary.NativeEndian.Uint32(record), binary.NativeEndian.Uint16(record[4:]), record)
		tail += n
	}
	return whole
}
