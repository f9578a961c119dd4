package segment

import (
	"fmt"

	"ingero/internal/store/log"
	"ingero/internal/tick"
)

// A log stores a tick's host sums directly before the tick. A tick without any has no such frame.

// maxHostSums bounds the sums of one tick.
const maxHostSums = 1 << 14

// host writes a tick's sums.
func (w *Writer) host(t *tick.Tick) {
	sums := t.HostSums[:min(len(t.HostSums), maxHostSums)]
	if len(sums) == 0 {
		return
	}
	b := appendUvarint(w.body[:0], uint64(len(sums)))
	for i := range sums {
		s := &sums[i]
		b = appendUvarint(appendUvarint(b, uint64(s.Kind)), uint64(s.PID))
		b = appendString(appendUvarint(b, uint64(s.Sender)), s.Object)
		b = appendString(b, s.Comm)
		for _, v := range [...]uint64{s.Count, s.Failed, s.Bytes, s.NS} {
			b = appendUvarint(b, v)
		}
		last := len(s.Hist)
		for last > 0 && s.Hist[last-1] == 0 {
			last--
		}
		b = appendUvarint(b, uint64(last))
		for _, n := range s.Hist[:last] {
			b = appendUvarint(b, n)
		}
	}
	w.body = b
	w.frame(frameHost, 1, w.enc.column(nil, b))
}

// readHost decodes the output of host.
func readHost(body []byte, dec *decoder) ([]tick.HostSum, error) {
	outer := reader{b: body}
	r, err := dec.column(&outer, columns, maxTick)
	if err != nil {
		return nil, err
	}
	n := r.count()
	if n > maxHostSums {
		return nil, fmt.Errorf("%w: invalid frame of %d host sums", log.ErrCorrupt, n)
	}
	out := make([]tick.HostSum, 0, n)
	for range n {
		var s tick.HostSum
		kind := r.uint()
		if kind > 1<<8-1 {
			r.fail()
		}
		s.Kind, s.PID, s.Sender = tick.HostEvent(kind), r.small(), r.small()
		s.Object, s.Comm = r.string(), r.string()
		for _, v := range [...]*uint64{&s.Count, &s.Failed, &s.Bytes, &s.NS} {
			*v = r.uint()
		}
		buckets := r.count()
		if buckets > len(s.Hist) {
			r.fail()
			break
		}
		for i := range buckets {
			s.Hist[i] = r.uint()
		}
		if r.bad {
			break
		}
		out = append(out, s)
	}
	if r.bad || len(r.b) != 0 || len(outer.b) != 0 {
		return nil, fmt.Errorf("%w: invalid host sums", log.ErrCorrupt)
	}
	return out, nil
}
