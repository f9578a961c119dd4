package cli

import (
	"fmt"
	"strings"
	"time"

	"ingero/internal/explain"
	"ingero/internal/tick"
)

// lossEvery is the minimum time between warnings about drops.
const lossEvery = 5 * time.Second

// losses warns about dropped events. The zero value is ready to use.
type losses struct {
	printed time.Time
	records uint64
	counts  map[string]uint64 // counts at the last warning
}

// line returns a warning if more events were dropped since the last warning, else "".
func (l *losses) line(t *tick.Tick) string {
	if !l.printed.IsZero() && t.Time.Sub(l.printed) < lossEvery {
		return ""
	}
	var since []tick.Drop
	now := map[string]uint64{}
	for _, d := range t.Drops {
		now[d.Reason] = d.Count
		if more := d.Count - min(d.Count, l.counts[d.Reason]); more > 0 {
			since = append(since, tick.Drop{Reason: d.Reason, Count: more})
		}
	}
	lost := explain.Lost(since)
	if lost == 0 {
		return ""
	}
	var parts []string
	for _, d := range since {
		parts = append(parts, d.Reason+"="+explain.Count(d.Count))
	}
	seen := t.Records - min(t.Records, l.records)
	l.printed, l.records, l.counts = t.Time, t.Records, now
	return fmt.Sprintf("WARN events dropped: %s; %s of the records were lost (--ringbuf-size, --sampling-rate)",
		strings.Join(parts, " "), explain.Percent(float64(lost)/float64(lost+seen)))
}
