package segment

import (
	"cmp"
	"fmt"
	"slices"

	"ingero/internal/store/log"
	"ingero/internal/tick"
)

const (
	frameLabelsMax = 1 << 12 // per frame
	maxLabelsBody  = 1 << 20 // bytes that a reader accepts
)

// lasting returns the labels that have not ended.
func lasting(l *tick.Labels) (out []tick.Label) {
	l.Open(func(s tick.LabelSpan) {
		out = append(out, tick.Label{Time: s.From, PID: s.PID, TID: s.TID, Key: s.Key, Value: s.Value})
	})
	slices.SortFunc(out, func(a, b tick.Label) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.PID, b.PID), cmp.Compare(a.TID, b.TID), cmp.Compare(a.Key, b.Key))
	})
	return out
}

// putLabels writes changes of labels, in frames of bounded size.
func (w *Writer) putLabels(list []tick.Label) {
	for part := range slices.Chunk(list, frameLabelsMax) {
		w.frame(frameLabels, 1, w.enc.column(nil, appendLabels(nil, part)))
	}
}

// appendLabels appends changes. Times are differences from the previous change.
func appendLabels(b []byte, list []tick.Label) []byte {
	b = appendUvarint(b, uint64(len(list)))
	at := int64(0)
	for i := range list {
		x := &list[i]
		b = appendUvarint(b, zig(x.Time-at))
		at = x.Time
		b = appendUvarint(appendUvarint(b, uint64(x.PID)), uint64(x.TID))
		b = appendString(appendString(b, x.Key), x.Value)
	}
	return b
}

func readLabels(body []byte, dec *decoder) ([]tick.Label, error) {
	outer := reader{b: body}
	r, err := dec.column(&outer, columns, maxLabelsBody)
	if err != nil {
		return nil, err
	}
	n := r.count()
	if n > frameLabelsMax {
		r.fail()
	}
	out := make([]tick.Label, 0, min(n, frameLabelsMax))
	at := int64(0)
	for range cap(out) {
		at += r.int()
		x := tick.Label{Time: at, PID: r.small(), TID: r.small(), Key: r.string(), Value: r.string()}
		if r.bad {
			break
		}
		out = append(out, x)
	}
	if r.bad || len(r.b) != 0 || len(outer.b) != 0 {
		return nil, fmt.Errorf("%w: invalid labels", log.ErrCorrupt)
	}
	return out, nil
}
