package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"ingero/internal/tick"
	"ingero/internal/wire"
)

const (
	// servedFor is how long the live table shows a request after its tick.
	servedFor = 10 * time.Second
	// mostServed bounds the requests that are kept for it.
	mostServed = 1 << 15
)

// served are the requests to servers in the last ticks.
type served struct {
	ticks []tick.Tick // with requests, oldest first; only Time, Requests, Processes and Others are set
	count int         // requests in them
	since time.Time   // requests of ticks up to this time were dropped; zero: none were
}

// add takes in a tick's requests, and drops old ones.
func (s *served) add(t *tick.Tick) {
	if len(t.Requests) > 0 {
		s.ticks = append(s.ticks, tick.Tick{Time: t.Time, Requests: slices.Clone(t.Requests), Processes: slices.Clone(t.Processes), Others: slices.Clone(t.Others)})
		s.count += len(t.Requests)
	}
	for len(s.ticks) > 0 && (s.count > mostServed || t.Time.Sub(s.ticks[0].Time) >= servedFor) {
		s.count -= len(s.ticks[0].Requests)
		s.since = s.ticks[0].Time
		s.ticks = slices.Delete(s.ticks, 0, 1)
	}
}

// list sums up the requests of the last seconds, and returns the time that they cover.
func (s *served) list(t *tick.Tick) ([]wire.Server, time.Duration) {
	var sums Requests
	for i := range s.ticks {
		if t.Time.Sub(s.ticks[i].Time) < servedFor {
			sums.Add(&s.ticks[i])
		}
	}
	from := t.Time.Add(-servedFor)
	for _, later := range []time.Time{t.Started, s.since} {
		if later.After(from) {
			from = later
		}
	}
	return slices.DeleteFunc(sums.List(), func(x wire.Server) bool { return x.Requests == 0 }), t.Time.Sub(from)
}

// Columns of a server's row: the name, the rate, three quantiles, the largest parts.
const (
	rateWide   = 7
	servedWide = 9
	partsWide  = 28
)

// requests shows a line for each server: the requests of the last seconds, and where the time to
// the first byte (ttft) went. tpot is the time between two events.
func (s *screen) requests(seen *Seen, t *tick.Tick) {
	if seen == nil {
		return
	}
	list, over := seen.served.list(t)
	if len(list) == 0 {
		return
	}
	name := min(longestName, max(16, s.width-2-rateWide-3*servedWide-partsWide))
	row := func(who, rate, p50, p99, between, parts string) string {
		return alignLeft(who, 2+name) + alignRight(rate, rateWide) + alignRight(p50, servedWide) + alignRight(p99, servedWide) + alignRight(between, servedWide) + "  " + parts
	}
	s.addLine(span{row("Requests", "req/s", "ttft p50", "ttft p99", "tpot p50", "ttft went to"), bold})
	for i := range list {
		x := &list[i]
		text := func(ns *int64) string {
			if ns == nil {
				return unknown
			}
			return short(*ns)
		}
		who, pid := processName(x.Comm, x.PID), fmt.Sprintf(" (%d)", x.PID)
		if cells(who) > name { // the PID is never cut
			who = cut(strings.TrimSuffix(who, pid), name-cells(pid)) + pid
		}
		s.row(x.Requests, []span{{row("  "+who, rateText(x.Requests, over), text(x.FirstByte.P50NS), text(x.FirstByte.P99NS), text(x.Between.P50NS), largestParts(x.Waits)), plain}})
	}
}

// rateText formats a number of requests as a rate a second.
func rateText(n uint64, over time.Duration) string {
	if over <= 0 {
		return unknown
	}
	rate := float64(n) / over.Seconds()
	if rate < 99.95 {
		return fmt.Sprintf("%.1f", rate)
	}
	return Count(uint64(rate + 0.5))
}

// largestParts names the two largest parts of requests' time, with their shares.
func largestParts(j *wire.RequestWaits) string {
	if j == nil {
		return ""
	}
	parts := slices.SortedStableFunc(slices.Values(j.Parts), func(a, b wire.WaitPart) int { return cmp.Compare(b.NS, a.NS) })
	var out []string
	for _, p := range parts[:min(len(parts), 2)] {
		out = append(out, fmt.Sprintf("%s %.0f %%", partTexts[p.Name].short, 100*float64(p.NS)/float64(max(j.TotalNS, 1))))
	}
	return strings.Join(out, ", ")
}
