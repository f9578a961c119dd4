package store

import (
	"fmt"
	"time"

	"ingero/internal/store/log"
	"ingero/internal/tick"
)

// A log stores a tick's host sums directly before the tick. A tick without any has no such frame.

// maxHostSums bounds the sums of one tick.
const maxHostSums = 1 << 14

// host writes a tick's sums.
func (w *logWriter) host(t *tick.Tick) {
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

var sqlHost = `REPLACE INTO host_sums VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// hostWindow is the length of the SQLite file's host rows, hostKept their retention time.
const (
	hostWindow = 10 * time.Second
	hostKept   = 30 * 24 * time.Hour
)

// savedHost holds the host sums of the next rows.
type savedHost struct {
	sums  tick.HostSums
	since time.Time // zero: the session's start
}

// hostSums adds a tick's sums, and writes a row for each once a window has elapsed.
func (v *saving) hostSums(t *tick.Tick) error {
	h := &v.host
	if h.since.IsZero() {
		h.since = t.Started
	}
	h.sums.Add(t.HostSums)
	window := t.Time.Sub(h.since)
	if window < hostWindow && !t.Final {
		return nil
	}
	for _, s := range h.sums.List() {
		row := s.Kind.Row()
		var count, bytes, ns, p50, p99 any
		if row.One != "" {
			count = int64(s.Count)
		}
		if row.Bytes {
			bytes = int64(s.Bytes)
		}
		if row.NS != "" && (s.NS > 0 || s.Hist.Count() > 0) {
			ns = int64(s.NS)
		}
		if s.Hist.Count() > 0 {
			p50, p99 = s.Hist.Quantile(0.5), s.Hist.Quantile(0.99)
		}
		if err := v.exec(&sqlHost, v.id, t.Time.UnixNano(), int64(window), s.Kind.String(), s.PID, s.Sender, s.Object, s.Comm,
			count, int64(s.Failed), bytes, ns, p50, p99); err != nil {
			return err
		}
	}
	v.done = append(v.done, func() { h.since = t.Time; h.sums.Reset() })
	return nil
}

// sweepHost deletes expired rows.
func (v *saver) sweepHost(now time.Time) error {
	_, err := v.db.Exec("DELETE FROM host_sums WHERE time_ns < ?", now.Add(-hostKept).UnixNano())
	return err
}
