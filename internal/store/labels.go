package store

import "ingero/internal/tick"

var sqlLabel = `INSERT INTO labels VALUES (?, ?, ?, ?, ?, ?, ?)
	ON CONFLICT DO UPDATE SET value = excluded.value, to_ns = excluded.to_ns`

// addLabels queues the spans of labels that begin or end.
func (v *saver) addLabels(list []tick.Label, procs []tick.ProcEvent) {
	v.labels.Batch(list, procs, v.addSpan)
}

// addSpan queues a span. If the queue is full, it drops spans that begin, and counts them. It queues
// the ends of all other spans, which would seem to last otherwise.
func (v *saver) addSpan(s tick.LabelSpan) {
	begun := s
	begun.To = 0
	switch {
	case s.To == 0 && len(v.spans) >= maxQueued:
		v.leftOut++
		v.dropped[begun] = true
	case v.dropped[begun]:
		delete(v.dropped, begun)
	default:
		v.spans = append(v.spans, s)
	}
}

// saveLabels writes the queued spans.
func (v *saving) saveLabels() error {
	for i := range v.spans {
		s := &v.spans[i]
		if err := v.exec(&sqlLabel, v.id, s.PID, s.TID, s.Key, s.From, s.Value, null(s.To)); err != nil {
			return err
		}
	}
	v.done = append(v.done, func() { v.spans = nil })
	return nil
}
