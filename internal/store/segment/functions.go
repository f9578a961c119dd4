package segment

import (
	"fmt"

	"ingero/internal/store/log"
	"ingero/pkg/events"
)

const (
	frameFunctionsMax = 1 << 12 // per frame
	frameFunctionText = 1 << 20 // bytes of names in a full frame
	maxFunctionsBody  = 8 << 20 // bytes that a reader accepts
	maxFunctionsKept  = 1 << 16 // names that the next segment repeats
)

// functionsKept are the current names of the session's handles. A segment begins with them. Beyond
// the limit, only the latest are kept.
type functionsKept struct {
	list  []events.Function
	index map[functionKey]int
}

type functionKey struct {
	pid    uint32
	handle uint64
}

func (k *functionsKept) add(list []events.Function) {
	for _, f := range list {
		key := functionKey{f.PID, f.Handle}
		if i, ok := k.index[key]; ok {
			k.list[i] = f
			continue
		}
		if len(k.list) >= maxFunctionsKept {
			k.list = append(k.list[:0:0], k.list[maxFunctionsKept/2:]...)
			k.index = nil
		}
		if k.index == nil {
			k.index = map[functionKey]int{}
			for i := range k.list {
				k.index[functionKey{k.list[i].PID, k.list[i].Handle}] = i
			}
		}
		k.index[key] = len(k.list)
		k.list = append(k.list, f)
	}
}

// putFunctions writes names, in frames of bounded size.
func (w *Writer) putFunctions(list []events.Function) {
	for len(list) > 0 {
		n, text := 0, 0
		for n < len(list) && n < frameFunctionsMax && text < frameFunctionText {
			text += len(list[n].Name)
			n++
		}
		w.frame(frameFunctions, 1, w.enc.column(nil, appendFunctions(nil, list[:n])))
		list = list[n:]
	}
}

// appendFunctions appends each name once, and then the handles that have them.
func appendFunctions(b []byte, list []events.Function) []byte {
	b, ids := appendTexts(b, len(list), func(i int) string { return list[i].Name })
	b = appendUvarint(b, uint64(len(list)))
	at := int64(0)
	for i := range list {
		f := &list[i]
		b = appendUvarint(b, zig(f.Time-at))
		at = f.Time
		b = appendUvarint(appendUvarint(appendUvarint(b, uint64(f.PID)), f.Handle), ids[f.Name])
		b = append(b, byte(f.Why))
	}
	return b
}

func readFunctions(body []byte, dec *decoder) ([]events.Function, error) {
	outer := reader{b: body}
	r, err := dec.column(&outer, columns, maxFunctionsBody)
	if err != nil {
		return nil, err
	}
	names := r.strings(frameFunctionsMax)
	n := r.count()
	if n > frameFunctionsMax {
		r.fail()
	}
	out := make([]events.Function, 0, min(n, frameFunctionsMax))
	at := int64(0)
	for range cap(out) {
		at += r.int()
		f := events.Function{Time: at, PID: r.small(), Handle: r.uint()}
		name := r.uint()
		if why := r.bytes(1); why != nil {
			f.Why = events.NoName(why[0])
		}
		if r.bad || name >= uint64(len(names)) {
			r.fail()
			break
		}
		f.Name = names[name]
		out = append(out, f)
	}
	if r.bad || len(r.b) != 0 || len(outer.b) != 0 {
		return nil, fmt.Errorf("%w: invalid names of functions", log.ErrCorrupt)
	}
	return out, nil
}
