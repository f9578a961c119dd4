package decode

import (
	"bytes"
	"fmt"
	"unsafe"

	"ingero/internal/bpf"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

const (
	rangeSize  = int(unsafe.Sizeof(bpf.IngeroRangeRecord{}))
	rangeName  = int(unsafe.Offsetof(bpf.IngeroRangeRecord{}.Name))
	rangeFlags = tick.RangeReturned | tick.RangeCut | tick.RangeUnaccounted
)

// Ranges decodes one record of an NVTX call and appends it. b is not kept. On error nothing is
// appended.
func Ranges(dst []tick.Range, b []byte, clock Clock) ([]tick.Range, error) {
	if len(b) < rangeSize || b[0] != uint8(bpf.IngeroRecordKindRECORD_RANGE) {
		return dst, fmt.Errorf("range of %d bytes: %w", len(b), ErrRecord)
	}
	r := (*bpf.IngeroRangeRecord)(unsafe.Pointer(&b[0]))
	var t tick.Thread
	account(&t, &r.Account, r.TimeNs)
	dst = append(dst, tick.Range{Time: clock.Wall(r.TimeNs), PID: r.Tgid, TID: r.Tid, Op: events.Op(r.Op), Flags: tick.RangeFlags(r.Flags) & rangeFlags,
		Lost: r.Lost, ID: r.Id, Domain: r.Domain, InCalls: t.InCalls, Sync: t.Sync, Between: t.Between})
	x := &dst[len(dst)-1]
	name := b[rangeName:rangeSize]
	if end := bytes.IndexByte(name, 0); end >= 0 {
		name = name[:end]
	}
	x.Length = uint8(copy(x.Name[:], name))
	return dst, nil
}
