package causal

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// A slower GPU has the untraced processes that have it open, the latest start first, and is the culprit itself.
func TestSharers(t *testing.T) {
	const device = "GPU 0"
	at := func(s float64) time.Time { return time.Unix(0, start+int64(s*1e9)) }
	open := func(pid uint32, object string) fact {
		return fact{from: 12 * s1, to: 13 * s1, HostSum: tick.HostSum{HostKey: tick.HostKey{Kind: tick.HostGPUOpen, PID: pid, Object: object}, Comm: fmt.Sprint("p", pid), Count: 1}}
	}
	program := func(pid uint32, s float64) tick.Process {
		return tick.Process{PID: pid, Comm: fmt.Sprint("p", pid), Started: at(s)}
	}
	others := []tick.Process{program(20, 7), program(21, -3600), program(22, 15), program(24, 8), program(25, 9)}
	many := []fact{}
	for pid := range uint32(2 * tick.MaxSharers) {
		many = append(many, open(100+pid, device))
	}
	for name, tt := range map[string]struct {
		facts []fact
		want  string
	}{
		"nobody looked":                     {nil, ""},
		"one that started shortly before":   {[]fact{open(20, device)}, "20@7"},
		"one that was there all the time":   {[]fact{open(21, device), open(20, device)}, "20@7 21@-3600"},
		"one that started later":            {[]fact{open(22, device), open(20, device)}, "20@7"},
		"one of which no start is known":    {[]fact{open(23, device), open(20, device)}, "20@7 23@?"},
		"one of another GPU":                {[]fact{open(24, "GPU 1"), open(20, device)}, "20@7"},
		"twice the same":                    {[]fact{open(20, device), open(20, device)}, "20@7"},
		"one that is traced now":            {[]fact{open(20, device), {gpu: "neighbour", from: 20 * s1, to: 26 * s1, HostSum: tick.HostSum{HostKey: tick.HostKey{PID: 20, Object: "0"}, Count: 1}}}, ""},
		"too many":                          {many, strings.TrimSpace(strings.Repeat("1xx@? ", tick.MaxSharers))},
		"instances of a GPU that it shares": {[]fact{open(20, device), {gpu: "divided", to: 60 * s1}}, "no GPU"},
	} {
		t.Run(name, func(t *testing.T) {
			x := newSimThread(7, 7, 42)
			for x.now < start+25*s1 {
				gpu := 1 * ms
				if x.now > start+10*s1 {
					gpu += 400 * us
				}
				x.use(ms)
				for range 10 {
					x.launch(6*us, x.vary(gpu, 0.02))
				}
				x.sync(false)
			}
			got := feed(&tick.Batch{Calls: x.calls, Waits: x.waits}, start, 10*ms, append(tt.facts, fact{holders: others, to: 60 * s1})...)
			if len(got) != 1 || got[0].Rule != gpuSlower.Name {
				show(t, got)
				t.Fatalf("%d chains, want %s", len(got), gpuSlower.Name)
			}
			by := &got[0].Culprits[0]
			if text := sharersOf(by, at(0)); text != tt.want || by.Thread != (events.Thread{}) || by.What != device {
				t.Errorf("sharers %q of culprit %+v, want %q", text, by, tt.want)
			}
		})
	}
}

// sharersOf returns a culprit's sharers with the seconds from a time to their starts, or that it has no GPU.
func sharersOf(by *tick.Culprit, from time.Time) string {
	list := []string{}
	for _, s := range by.Sharers {
		pid, since := fmt.Sprint(s.PID), "?"
		if s.PID >= 100 {
			pid = "1xx"
		}
		if !s.Started.IsZero() {
			since = fmt.Sprint(s.Started.Sub(from).Seconds())
		}
		list = append(list, pid+"@"+since)
	}
	if by.GPU == "" {
		list = append(list, "no GPU")
	}
	return strings.Join(list, " ")
}
