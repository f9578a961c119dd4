package store

import (
	"time"

	"ingero/internal/tick"
)

var sqlHost = `REPLACE INTO host_sums VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// hostWindow is the length of the SQLite file's host rows.
const hostWindow = 10 * time.Second

// savedHost holds the host sums of the next rows.
type savedHost struct {
	sums  tick.HostSums
	since time.Time // zero: the session's start
}

// noteHost adds a tick's sums.
func (v *saver) noteHost(t *tick.Tick) {
	h := &v.host
	if h.since.IsZero() {
		h.since = t.Started
	}
	for _, s := range t.HostSums {
		s.Object = s.Named()
		h.sums.Add([]tick.HostSum{s})
	}
}

// hostSums writes a row for each sum once a window has elapsed.
func (v *saving) hostSums(t *tick.Tick) error {
	h := &v.host
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
