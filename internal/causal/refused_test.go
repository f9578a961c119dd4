package causal

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

const pollStack = 78 // of the sleeps between tries

// polling runs 1,500 steps of 10 ms, of which late ones sleep or compute for 30 ms more, and returns the chains of
// own-code and lock-wait, and how many steps were late.
func polling(late func(n int) bool, compute bool, facts []fact) (out []tick.Chain, slow int) {
	x := newSimThread(7, 7, 42)
	for n := range 1500 {
		x.use(x.vary(2*ms, 0.1))
		switch {
		case !late(n):
		case compute:
			x.use(30 * ms)
		default:
			x.block(events.Wait{Reason: events.ReasonSleep, Flags: events.WaitByIRQ, Stack: pollStack}, x.now+30*ms)
		}
		slow += btoi(late(n))
		for range 10 {
			x.launch(6*us, x.vary(800*us, 0.02))
		}
		x.sync(false)
	}
	facts = append(facts, fact{holders: []tick.Process{{PID: 900, Comm: "annotate"}, {PID: 901, Comm: "backup"}}, from: -60 * s1, to: 60 * s1})
	for _, c := range feed(&tick.Batch{Calls: x.calls, Waits: x.waits}, start-30*s1, 10*ms, facts...) {
		if c.Rule == ownCode.Name || c.Rule == lockWait.Name {
			out = append(out, c)
		}
	}
	return out, slow
}

// refusedFor is a lock on a file that the job is refused in each second.
func refusedFor(file string, holder uint32, count, from, to int64) fact {
	return fact{from: from * s1, to: to * s1, HostSum: tick.HostSum{Count: uint64(count),
		HostKey: tick.HostKey{Kind: tick.HostLockRefused, PID: 7, Sender: holder, Object: file}}}
}

// refusedByMany are refusals by twelve holders, each of another file.
func refusedByMany() (out []fact) {
	for i := range uint32(12) {
		out = append(out, refusedFor(fmt.Sprint(i), 900+i, 4, 5, 10))
	}
	return out
}

// A job that sleeps between tries to get a file lock waits for the holder: if it was refused the lock in its slow steps,
// and hardly at other times.
func TestRefused(t *testing.T) {
	refused := func(holder uint32, count, from, to int64) fact { return refusedFor("samples", holder, count, from, to) }
	late := func(n int) bool { return n >= 500 && n < 600 }
	for name, tt := range map[string]struct {
		facts   []fact
		late    func(n int) bool
		compute bool
		rule    string // "": none
		pid     uint32
		what    string
	}{
		"by another program":    {[]fact{refused(900, 50, 5, 10)}, late, false, "lock-wait", 900, "held a lock on samples; the job tried to get it "},
		"mostly by one program": {[]fact{refused(901, 20, 5, 10), refused(900, 50, 5, 10)}, late, false, "lock-wait", 900, "held a lock on samples; "},
		"by one that has ended": {[]fact{refused(902, 50, 5, 10)}, late, false, "lock-wait", 902, "took a lock on samples and may have ended; "},
		"by an unknown one":     {[]fact{refused(0, 50, 5, 10)}, late, false, "lock-wait", 0, "a lock on samples whose holder is unknown; "},
		"by itself":             {[]fact{refused(7, 50, 5, 10)}, late, false, "lock-wait", 7, "held a lock on samples; "},
		"once, much later":      {[]fact{refused(900, 50, 5, 10), refused(900, 1, 11, 12)}, late, false, "lock-wait", 900, "held a lock on samples; "},
		"in one of five steps":  {[]fact{refused(900, 50, 0, 60)}, func(n int) bool { return n%5 == 4 }, false, "", 0, ""},
		"by another thread, all the time, in one of five steps": {[]fact{refused(900, 20, 0, 60)}, func(n int) bool { return n%5 == 4 }, false, "", 0, ""},
		"in most steps":               {[]fact{refused(900, 50, 6, 42)}, func(n int) bool { return n >= 600 }, false, "lock-wait", 900, "held a lock on samples; "},
		"by one for two files":        {[]fact{refused(901, 40, 5, 10), refused(900, 35, 5, 10), refusedFor("index", 900, 25, 5, 10)}, late, false, "lock-wait", 900, "held locks on 2 files, most often samples; the job tried to get them "},
		"by many":                     {refusedByMany(), late, false, "lock-wait", 900, "held a lock on 0; "},
		"also before its first step":  {[]fact{refused(900, 50, 5, 10), refused(900, 500, -20, -1)}, late, false, "lock-wait", 900, "held a lock on samples; "},
		"at no time":                  {nil, late, false, ownCode.Name, 7, "slept for "},
		"as often at other times":     {[]fact{refused(900, 50, 0, 60)}, late, false, ownCode.Name, 7, "slept for "},
		"in other seconds":            {[]fact{refused(900, 50, 10, 12)}, late, false, ownCode.Name, 7, "slept for "},
		"in few of its slow steps":    {[]fact{refused(900, 2, 5, 10)}, late, false, ownCode.Name, 7, "slept for "},
		"while it computed":           {[]fact{refused(900, 50, 5, 10)}, late, true, ownCode.Name, 7, "computed for "},
		"never, in one of five steps": {nil, func(n int) bool { return n%5 == 4 }, false, "", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, slow := polling(tt.late, tt.compute, tt.facts)
			if tt.rule == "" && len(got) == 0 {
				return
			}
			if len(got) != 1 || got[0].Rule != tt.rule {
				show(t, got)
				t.Fatalf("%d chains, want %q", len(got), tt.rule)
			}
			c, by := &got[0], &got[0].Culprits[0]
			if by.Thread.PID != tt.pid || !strings.HasPrefix(by.What, tt.what) || by.Own != (tt.pid == 7) {
				t.Errorf("the culprit is %+v", by)
			}
			if tt.rule != lockWait.Name {
				return
			}
			if name := by.Thread.Name.String(); tt.pid == 900 && name != "annotate" || by.Stack != pollStack || by.Root.Did != tick.ActivityHold || c.Severity != tick.High {
				t.Errorf("%s, culprit %+v", c.Severity, by)
			}
			if want := time.Duration(slow) * 30 * time.Millisecond; math.Abs(float64(c.Lost-want)) > 0.15*float64(want) {
				t.Errorf("lost %v, want %v", c.Lost, want)
			}
		})
	}
}
