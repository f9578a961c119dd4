package otlp

import (
	"testing"
	"time"

	"ingero/internal/metric"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// After a step of the wall clock, spans, logs and metrics have its times, and links of chains still lead
// to their calls. A counter keeps its start, unless that would be after its time.
func TestClockStep(t *testing.T) {
	for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(ahead.String(), func(t *testing.T) {
			r := newReceiver(t, nil)
			x := newExporter(t, r, HTTPProtobuf, SpansAll)
			m := metric.New(metric.Options{})
			m.Publish = x.Publish
			at := func(second int) uint64 { return uint64(tickAt(second).Time.Add(ahead).UnixNano()) }
			first := tickAt(1)
			first.Ahead = ahead
			if err := x.Tick(first); err != nil {
				t.Fatal(err)
			}
			slow := call("cudaStreamSynchronize", 0, 5_000, "")
			slow.Start = tickAt(2).Time.UnixNano()
			slow.Flags |= events.CallFailed
			if err := x.Batch(&tick.Batch{Calls: []events.Call{slow}}); err != nil {
				t.Fatal(err)
			}
			last := tickAt(4)
			last.Ahead, last.Ops = ahead, []tick.Op{{PID: 4, Op: slow.Op, Sum: tick.Counts{Calls: 1}}}
			last.Episodes = []tick.Episode{{Kind: tick.EpisodeEnd, ID: "cpu-taken-4-1", From: tickAt(2).Time, To: tickAt(3).Time,
				Chain: tick.Chain{ID: "cpu-taken-4", Rule: "cpu-taken", PID: 4, Timeline: []tick.Moment{{Time: tickAt(2).Time}}}}}
			last.Xids = []tick.Xid{{Time: tickAt(3).Time.UnixNano(), Code: 79}}
			if err := m.Tick(last); err != nil {
				t.Fatal(err)
			}
			sent(t, x, last)
			spans, _ := r.spans(t)
			for _, s := range spans {
				end := at(2) + 5_000_000
				if s.Name == "chain cpu-taken" {
					end = at(3)
					if len(s.Links) != 1 || s.Events[0].TimeUnixNano != at(2) {
						t.Errorf("links %v, events %v", s.Links, s.Events)
					}
				}
				if s.StartTimeUnixNano != at(2) || s.EndTimeUnixNano != end {
					t.Errorf("%s is from %d to %d, want %d to %d", s.Name, s.StartTimeUnixNano, s.EndTimeUnixNano, at(2), end)
				}
			}
			logs := r.logs(t)
			if len(spans) != 2 || len(logs) != 2 || logs[0].TimeUnixNano != at(4) || logs[1].TimeUnixNano != at(3) || logs[1].ObservedTimeUnixNano != at(4) {
				t.Errorf("spans %v, logs %v", spans, logs)
			}
			start := began
			if ahead < 0 {
				start = began.Add(ahead)
			}
			for name, f := range r.metrics(t) {
				for _, p := range f.GetSum().GetDataPoints() {
					if p.TimeUnixNano != at(4) || p.StartTimeUnixNano != uint64(start.UnixNano()) {
						t.Errorf("%s is from %d to %d, want %d to %d", name, p.StartTimeUnixNano, p.TimeUnixNano, start.UnixNano(), at(4))
					}
				}
			}
		})
	}
}
