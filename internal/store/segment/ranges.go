package segment

import (
	"fmt"
	"slices"

	"ingero/internal/store/log"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

const (
	frameRangesMax = 1 << 12 // per frame
	maxRangesBody  = 4 << 20 // bytes that a reader accepts
)

// putRanges writes NVTX calls, in frames of bounded size.
func (w *Writer) putRanges(list []tick.Range) {
	for part := range slices.Chunk(list, frameRangesMax) {
		w.frame(frameRanges, 1, w.enc.column(nil, appendRanges(nil, part)))
	}
}

// rangeTimes returns pointers to a call's times in the order of a log.
func rangeTimes(r *tick.Range) (all [12]*uint64) {
	for i, t := range [...]*tick.Times{&r.InCalls, &r.Sync, &r.Between} {
		copy(all[4*i:], []*uint64{&t.OnCPU, &t.Runnable, &t.Throttled, &t.Blocked})
	}
	return all
}

// appendRanges appends each name once, and then the calls. Times are differences from the thread's
// previous call.
func appendRanges(b []byte, list []tick.Range) []byte {
	b, ids := appendTexts(b, len(list), func(i int) string { return string(list[i].Name[:list[i].Length]) })
	b = appendUvarint(b, uint64(len(list)))
	at, id := int64(0), uint64(0)
	last := map[uint32]*tick.Range{}
	for i := range list {
		r := &list[i]
		b = appendUvarint(appendUvarint(appendUvarint(b, zig(r.Time-at)), uint64(r.PID)), uint64(r.TID))
		b = appendUvarint(appendUvarint(appendUvarint(appendUvarint(b, uint64(r.Op)), uint64(r.Flags)), ids[string(r.Name[:r.Length])]), uint64(r.Lost))
		b = appendUvarint(appendUvarint(b, zig(int64(r.ID-id))), r.Domain)
		was := last[r.TID]
		if was == nil {
			was = &tick.Range{}
		}
		before := rangeTimes(was)
		for k, v := range rangeTimes(r) {
			b = appendUvarint(b, zig(int64(*v-*before[k])))
		}
		at, id, last[r.TID] = r.Time, r.ID, r
	}
	return b
}

func readRanges(body []byte, dec *decoder) ([]tick.Range, error) {
	outer := reader{b: body}
	r, err := dec.column(&outer, columns, maxRangesBody)
	if err != nil {
		return nil, err
	}
	names := r.strings(frameRangesMax)
	n := r.count()
	if n > frameRangesMax {
		r.fail()
	}
	out := make([]tick.Range, 0, min(n, frameRangesMax))
	at, id := int64(0), uint64(0)
	last := map[uint32]*tick.Range{}
	for range cap(out) {
		at += r.int()
		x := tick.Range{Time: at, PID: r.small(), TID: r.small(), Op: events.Op(r.tiny()), Flags: tick.RangeFlags(r.tiny())}
		name := r.uint()
		x.Lost = r.small()
		id += uint64(r.int())
		x.ID, x.Domain = id, r.uint()
		before := rangeTimes(&tick.Range{})
		if was := last[x.TID]; was != nil {
			before = rangeTimes(was)
		}
		for k, v := range rangeTimes(&x) {
			*v = *before[k] + uint64(r.int())
		}
		if r.bad || name >= uint64(len(names)) || len(names[name]) > tick.MaxRangeName {
			r.fail()
			break
		}
		x.Length = uint8(copy(x.Name[:], names[name]))
		out = append(out, x)
		last[x.TID] = &out[len(out)-1]
	}
	if r.bad || len(r.b) != 0 || len(outer.b) != 0 {
		return nil, fmt.Errorf("%w: ranges", log.ErrCorrupt)
	}
	return out, nil
}
