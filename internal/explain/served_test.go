package explain

import (
	"testing"
	"time"

	"ingero/internal/tick"
	"ingero/internal/wire"
)

// servedAt is a tick with requests to a server, those of servedTick, and with others. PID 9 gets
// only the others.
func servedAt(at time.Time, pid uint32, others ...tick.Request) *tick.Tick {
	t := servedTick()
	t.Time, t.Processes[0].PID = at, pid
	t.Others = []tick.Process{{PID: 1234567, Comm: "api_server_main"}}
	for i := range t.Requests {
		x := &t.Requests[i]
		x.PID, x.Split = pid, x.First > time.Millisecond
		d := (x.First - x.Whole) / 9
		x.ToFirst = tick.RequestTime{Idle: d, Prompts: 4 * d, Tokens: 2 * d, Own: d, Deliver: x.First - x.Whole - 8*d}
	}
	if pid == 9 {
		t.Requests = nil
	}
	t.Requests = append(t.Requests, others...)
	return t
}

// Requests of more than ten seconds ago are dropped. If there are too many, the rate is that of the
// time from which all are kept.
func TestServedIsBounded(t *testing.T) {
	var s served
	many := make([]tick.Request, mostServed/4)
	for i := range many {
		many[i] = tick.Request{PID: 42, Port: 8000, Post: true}
	}
	now := &tick.Tick{Started: start, Requests: many}
	for i := range 30 {
		now.Time = start.Add(time.Duration(i+1) * time.Second)
		s.add(now)
		if list, over := s.list(now); rateText(list[0].Requests, over) != Count(mostServed/4) {
			t.Fatalf("after %d s: %d requests in %s", i+1, list[0].Requests, over)
		}
	}
	if s.count > mostServed || len(s.ticks) != 4 {
		t.Errorf("%d requests of %d ticks are kept", s.count, len(s.ticks))
	}
	now.Time, now.Requests = now.Time.Add(servedFor), nil
	if s.add(now); len(s.ticks) > 0 || s.count > 0 {
		t.Errorf("%d requests of %d ticks are kept after 10 s", s.count, len(s.ticks))
	}
}

// The parts of the time to the first byte have names that fit.
func TestLargestParts(t *testing.T) {
	for name, text := range partTexts {
		if len(text.short) > 7 {
			t.Errorf("%s: %q is too long", name, text.short)
		}
	}
	j := &wire.RequestWaits{TotalNS: 1000, Parts: []wire.WaitPart{{Name: "unread", NS: 200}, {Name: "prompts", NS: 500}, {Name: "receiving", NS: 300}}}
	if got := largestParts(j); got != "prompts 50 %, receive 30 %" || cells(got) > partsWide-2 {
		t.Errorf("got %q", got)
	}
	for n, want := range map[uint64]string{0: "0.0", 5: "0.5", 999: "99.9", 12_345: "1,235"} { // in 10 s
		if got := rateText(n, 10*time.Second); got != want {
			t.Errorf("%d requests: got %q, want %q", n, got, want)
		}
	}
}
