package causal

import (
	"strings"
	"testing"
	"time"

	"ingero/internal/tick"
)

// read adds a read of the server's metrics, 5 s after the last one.
func (s *served) read(preemptions *float64) *tick.Inference {
	from := time.Unix(0, servedFrom).Add(time.Duration(len(s.reads)) * 5 * time.Second)
	s.reads = append(s.reads, tick.Inference{PID: serverPID, Since: from, Time: from.Add(5 * time.Second), Preemptions: preemptions, KVCache: new(0.97)})
	return &s.reads[len(s.reads)-1]
}

// Requests that missed steps for tokens while the server preempted requests stood still.
func TestKVPreemption(t *testing.T) {
	const ms = int64(time.Millisecond)
	for name, tt := range map[string]struct {
		missed      uint32   // steps for tokens that each second request of two misses, of 50
		every       uint32   // steps for a token of a request
		preemptions *float64 // between two reads
		slow        bool     // clients read slowly
		lost        time.Duration
	}{
		"preempted":            {missed: 10, every: 1, preemptions: new(7.0), lost: 2 * time.Second},
		"without metrics":      {missed: 10, every: 1},
		"a full cache alone":   {missed: 10, every: 1, preemptions: new(0.0)},
		"no request waits":     {every: 1, preemptions: new(7.0)},
		"a step or so":         {missed: 1, every: 1, preemptions: new(7.0)},
		"five steps an event":  {every: 5, preemptions: new(7.0)},
		"clients read slowly":  {missed: 10, every: 1, preemptions: new(7.0), slow: true},
		"for most of the time": {missed: 40, every: 1, preemptions: new(7.0), lost: 8 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServed()
			for range 20 { // each second, two requests run one after the other beside a third
				begin := s.at
				for range 95 {
					s.step(0, 10*time.Millisecond, true)
				}
				s.step(0, 50*time.Millisecond, false) // computes the prompt of the second again
				for i, at := range []int64{begin, begin + 500*ms, begin} {
					r := s.request("10.0.0.5", at-20*ms, at, at+500*ms-1, 400)
					r.TokenSteps, r.Events = 50, 50/tt.every+1
					if i == 1 {
						r.Events -= tt.missed
					}
					if tt.slow {
						r.Refused = 3
					}
				}
			}
			for range 4 {
				s.read(tt.preemptions)
			}
			got := s.chains("kv-preemption")
			if tt.lost == 0 {
				if len(got) != 0 {
					t.Errorf("%+v", got)
				}
				return
			}
			if len(got) != 1 || (got[0].Lost-tt.lost).Abs() > time.Millisecond || got[0].PID != engineTID || got[0].Slow != 20 || got[0].Severity != tick.High {
				t.Fatalf("%+v", got)
			}
			want := "KV cache, which was up to 97 % full at a read of the metrics: 28 preemptions, 20 requests without tokens meanwhile"
			if c := got[0].Culprits; len(c) != 1 || c[0].What != want {
				t.Errorf("culprits: %+v", c)
			}
			if text := got[0].Timeline[0].Text; !strings.Contains(text, "20 stood still for "+span(int64(tt.lost))) {
				t.Errorf("timeline: %s", text)
			}
		})
	}
}

// The union of known parts is exact. Where a part is in its interval is else unknown.
func TestUnion(t *testing.T) {
	for name, tt := range map[string]struct {
		list []standing
		want union
	}{
		"none":                    {nil, union{}},
		"apart":                   {[]standing{{0, 100, 100, 1}, {200, 250, 50, 1}}, union{150, 150, 150}},
		"overlap":                 {[]standing{{0, 100, 100, 1}, {50, 150, 100, 1}}, union{150, 150, 200}},
		"one, somewhere":          {[]standing{{0, 100, 40, 1}}, union{40, 40, 40}},
		"two, somewhere":          {[]standing{{0, 100, 50, 1}, {0, 100, 50, 1}}, union{75, 100, 100}},
		"more than the time":      {[]standing{{0, 100, 80, 1}, {0, 100, 80, 1}}, union{96, 100, 160}},
		"one stands for two":      {[]standing{{0, 100, 30, 2}}, union{51, 60, 60}},
		"nothing in no time":      {[]standing{{5, 5, 5, 1}, {0, 10, 0, 1}}, union{}},
		"the same time and after": {[]standing{{0, 10, 10, 1}, {10, 20, 10, 1}}, union{20, 20, 20}},
	} {
		t.Run(name, func(t *testing.T) {
			got := unionOf(tt.list)
			for _, x := range [][2]float64{{got.lost, tt.want.lost}, {got.most, tt.want.most}, {got.sum, tt.want.sum}} {
				if d := x[0] - x[1]; d > 1e-6 || d < -1e-6 {
					t.Fatalf("got %+v, want %+v", got, tt.want)
				}
			}
		})
	}
}
