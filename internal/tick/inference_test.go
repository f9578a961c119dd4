package tick

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// A quantile is estimated evenly inside a bucket. The last bucket may have no upper bound.
func TestQuantile(t *testing.T) {
	d := &Durations{Count: 10, Buckets: []DurationBucket{{Over: 0, UpTo: 0.1, Count: 5}, {Over: 0.4, UpTo: 0.8, Count: 4}, {Over: 0.8, Count: 1}}}
	for q, want := range map[float64]float64{0.5: 0.1, 0.25: 0.05, 0.7: 0.6, 0.9: 0.8, 0.99: 0.8, 1: 0.8} {
		if got, known := d.Quantile(q); !known || math.Abs(got-want) > 1e-9 {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	for _, d := range []*Durations{nil, {}, {Count: 4, Sum: 1}} {
		if got, known := d.Quantile(0.5); known {
			t.Errorf("%+v has the median %v", d, got)
		}
	}
}

// Reads of a server are summed up: the last state, all growth, and the time of the growth. A failed
// read keeps the state.
func TestServers(t *testing.T) {
	n := func(v float64) *float64 { return &v }
	at := time.Unix(1000, 0)
	read := func(second int, running, tokens float64, count uint64) Inference {
		return Inference{Time: at.Add(time.Duration(second) * time.Second), Since: at.Add(time.Duration(second-5) * time.Second), PID: 7, Engine: "vLLM", URL: "u",
			Running: n(running), GeneratedTokens: n(tokens), FirstToken: &Durations{Count: count, Sum: 1, Buckets: []DurationBucket{{Over: 0.5, UpTo: 1, Count: count}}}}
	}
	reads := []Inference{{Time: at, PID: 7, URL: "u", Running: n(1)}, read(5, 2, 10, 1), read(10, 3, 20, 4), {Time: at.Add(15 * time.Second), PID: 7, URL: "u", Why: "w"}, read(60, 0, 5, 1), {PID: 3, URL: "v"}}
	var s Servers
	s.Add(reads[:3])
	s.Add(reads[3:])
	list := s.List()
	if len(list) != 2 || list[0].PID != 3 {
		t.Fatalf("%d servers", len(list))
	}
	x := list[1]
	rate, _ := x.PerSecond(x.GeneratedTokens)
	got := fmt.Sprintln(*x.Running, *x.GeneratedTokens, x.FirstToken.Count, x.FirstToken.Buckets, x.Covered, x.Why, x.Engine)
	if want := "0 35 6 [{0.5 1 6}] 15s  vLLM\n"; got != want || math.Abs(rate-35.0/15) > 1e-9 {
		t.Errorf("%s, %v a second; want %s", got, rate, want)
	}
	if *reads[1].GeneratedTokens != 10 || reads[1].FirstToken.Buckets[0].Count != 1 {
		t.Error("a read was changed")
	}
	for i := range uint32(2 * maxServers) {
		s.Add([]Inference{{Time: at.Add(time.Duration(i) * time.Hour), PID: 100 + i}})
	}
	if len(s.List()) != maxServers {
		t.Errorf("%d servers", len(s.List()))
	}
}
