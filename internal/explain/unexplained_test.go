package explain

import (
	"strings"
	"testing"
	"time"

	"ingero/internal/stats"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// slowLoop is a loop of 1000 steps of 10 ms, and slow ones that take 100 ms longer for a reason.
func slowLoop(slow int, reason events.Reason) *tick.Loop {
	l := &tick.Loop{Steps: uint64(1000 + slow), Lengths: &stats.Sketch{}, P50: 10 * ms, Usual: tick.StepTimes{GPUWait: 10 * ms}}
	l.Lengths.Add(10*ms, 1000)
	l.Total = time.Duration(1000*10+slow*110) * ms
	for i := range slow {
		l.Lengths.Add(110*ms, 1)
		from := start.Add(time.Minute + time.Duration(i)*time.Second)
		s := tick.LoopStep{From: from, To: from.Add(110 * ms), Times: tick.StepTimes{GPUWait: 10 * ms, GapCPU: 100 * ms}}
		if reason != 0 {
			s.Times = tick.StepTimes{GPUWait: 10 * ms, Blocked: 100 * ms}
			s.Took = []tick.Share{{NS: 100 * ms, Count: 1, Reason: reason, Call: syscallNamed("epoll_wait")}}
		}
		l.Slowest = tick.Slower(l.Slowest, s)
	}
	return l
}

// Slow steps that wait for something are named even where no rule finds the cause. A program's own work, its
// sleeps and its start are usual.
func TestUnexplainedSlowSteps(t *testing.T) {
	startup := slowLoop(1, events.ReasonPoll)
	startup.Lengths.Add(3000*ms, 1)
	startup.Slowest[0].From = start.Add(time.Second)
	startup.Slowest[0].To = start.Add(4 * time.Second)
	twoWaits := slowLoop(31, events.ReasonPoll)
	for i := range twoWaits.Slowest {
		s := &twoWaits.Slowest[i]
		s.Took[0].NS = 40 * ms
		s.Took = append(s.Took, tick.Share{NS: 30 * ms, Count: 1, Reason: events.ReasonSocket}, tick.Share{NS: 30 * ms, Count: 1, Reason: events.ReasonPipe})
	}
	for name, tt := range map[string]struct {
		loop  *tick.Loop
		waker *tick.WakerShare // what the thread did that the slow steps waited for
		want  string           // part of the text; "": none
	}{
		"polls":                 {slowLoop(31, events.ReasonPoll), nil, "31 of 1,031 steps of python3 (4821) took longer than usual, together by 3.09 s in 60.0 s (a usual step takes 10.0 ms), and "},
		"few":                   {slowLoop(3, events.ReasonPoll), nil, ""},
		"an evaluation":         {slowLoop(31, 0), nil, ""},
		"sleeps as it wants to": {slowLoop(31, events.ReasonSleep), nil, ""},
		"start":                 {startup, nil, ""},
		"no steps":              {nil, nil, ""},
		"no wait took most":     {twoWaits, nil, ""},
		"waits for a child":     {slowLoop(31, events.ReasonChild), nil, ""},
		"nobody gave it work":   {slowLoop(31, events.ReasonPoll), &tick.WakerShare{Times: tick.Times{Blocked: uint64(second)}, Reason: events.ReasonPoll}, ""},
	} {
		b := well(4821)
		b.Loop = tt.loop
		b.BlockedOn = append(b.BlockedOn, tick.Share{NS: second, Reason: events.ReasonPoll, Call: syscallNamed("epoll_wait"), At: "loader.py:57", Waker: tt.waker})
		in := ledgerInput(train(4821, 200), b)
		text := oneLine(Report(in, Options{Detail: Brief}))
		const end = "no rule explains it. Most of the extra time of the slowest was spent blocked: poll at loader.py:57. Confidence is low"
		switch {
		case tt.want == "" && !strings.HasPrefix(text, "Nothing slowed python3 (4821)"):
			t.Errorf("%s: got %s", name, text)
		case tt.want != "" && (!strings.HasPrefix(text, tt.want) || !strings.Contains(text, end)):
			t.Errorf("%s: got %s", name, text)
		}
		if got := build(in).Processes[0].Unexplained; (got != nil) != (tt.want != "") {
			t.Errorf("%s: got %+v in JSON", name, got)
		}
		in.Chains = []tick.Chain{takenChain(4821)} // a cause is better than none
		if got := build(in).Processes[0].Unexplained; got != nil {
			t.Errorf("%s, with a cause: got %+v", name, got)
		}
	}
}

// A step that has not ended is reported by its wait, beside causes, too. A program without work sleeps, waits for its
// children, answers requests or ends soon.
func TestUnfinishedStep(t *testing.T) {
	open := func(reason events.Reason, length time.Duration) *tick.LoopStep {
		s := &tick.LoopStep{From: start.Add(time.Minute - length), To: start.Add(time.Minute), Times: tick.StepTimes{Blocked: length}}
		s.Took = []tick.Share{{NS: uint64(length), Count: 2, Reason: reason, Call: syscallNamed("poll")}}
		return s
	}
	for name, tt := range map[string]struct {
		open  *tick.LoopStep
		ended bool
		want  string
	}{
		"hangs":           {open(events.ReasonPoll, 7950*ms), false, "At the end of this time range, python3 (4821) had finished no step for 7.95 s (a usual step takes 15.1 ms), and no rule explains it. The process was mostly blocked: poll at loader.py:57. "},
		"hung to its end": {open(events.ReasonPoll, 20000*ms), true, "At its end, python3 (4821) had finished no step for 20.0 s"},
		"ended after 8 s": {open(events.ReasonPoll, 7950*ms), true, ""},
		"sleeps":          {open(events.ReasonSleep, 7950*ms), false, ""},
		"has a child":     {open(events.ReasonChild, 7950*ms), false, ""},
		"none":            {nil, false, ""},
	} {
		b := well(4821)
		b.Open = tt.open
		b.BlockedOn = append(b.BlockedOn, tick.Share{NS: second, Reason: events.ReasonPoll, Call: syscallNamed("poll"), At: "loader.py:57"})
		in := ledgerInput(train(4821, 200), b)
		if tt.ended {
			in.Processes[0].Ended = in.To
		}
		for _, chains := range [][]tick.Chain{nil, {takenChain(4821)}} {
			in.Chains = chains
			text := oneLine(Report(in, Options{Detail: Brief}))
			if got := strings.Contains(text, "had finished no step"); got != (tt.want != "") || !strings.Contains(text, tt.want) {
				t.Errorf("%s, %d causes: got %s", name, len(chains), text)
			}
			if got := strings.Contains(text, "Nothing"); got != (tt.want == "" && chains == nil) {
				t.Errorf("%s, %d causes: got %s", name, len(chains), text)
			}
		}
	}
}

// A cause that reaches into the unfinished step explains it, and a process with clients is idle between two requests.
func TestUnfinishedStepIsKnown(t *testing.T) {
	b := well(4821)
	b.Open = &tick.LoopStep{From: start.Add(20 * time.Second), To: start.Add(time.Minute), Times: tick.StepTimes{Blocked: 40 * time.Second},
		Took: []tick.Share{{NS: 40 * second, Count: 1, Reason: events.ReasonPoll}}}
	in := ledgerInput(train(4821, 200), b)
	if build(in).Processes[0].Unexplained == nil {
		t.Fatal("the unfinished step is not reported")
	}
	if text := Live(&tick.Tick{Time: start.Add(time.Minute), Breakdowns: in.Breakdowns}, &Seen{}, Options{}); !strings.Contains(text, "no step for 40.0 s, mostly blocked: poll") {
		t.Errorf("live: got %s", text)
	}
	in.Chains = []tick.Chain{takenChain(4821)}
	if got := build(in).Processes[0].Unexplained; got != nil {
		t.Errorf("with a cause at that time: got %+v", got)
	}
	in.Chains, in.Hidden = nil, []tick.Hidden{{Chain: takenChain(4821)}}
	if got := build(in).Processes[0].Unexplained; got != nil {
		t.Errorf("with a hidden cause at that time: got %+v", got)
	}
	in.Hidden = nil
	peer := func(object string) []tick.HostSum {
		return []tick.HostSum{{HostKey: tick.HostKey{Kind: tick.HostReceive, PID: 4821, Object: object}, Count: 1}}
	}
	if in.HostSums = peer("10.0.0.9:6379"); build(in).Processes[0].Unexplained == nil {
		t.Error("a process with a server: not reported")
	}
	if in.HostSums = peer("10.0.0.9"); build(in).Processes[0].Unexplained != nil {
		t.Error("a process with clients: reported")
	}
	if in.HostSums, in.Serving = nil, map[uint32]bool{4821: true}; build(in).Processes[0].Unexplained != nil {
		t.Error("a process that serves: reported")
	}
}

// The remark of a busy machine that did not slow the jobs does not follow slow steps without a cause, and the last
// sentence counts them apart.
func TestUnexplainedAmongMany(t *testing.T) {
	var list []tick.Breakdown
	for pid := range uint32(12) {
		b := well(4821 + pid)
		if pid > 0 && pid < 10 {
			b.Loop = slowLoop(31, events.ReasonPoll)
		}
		list = append(list, b)
	}
	in := ledgerInput(train(4821, 200), list...)
	in.Host.CPU = 1
	text := oneLine(Report(in, Options{Detail: Brief}))
	if !strings.Contains(text, "Slow or unfinished steps that no rule explains: 1 other process. Nothing slowed 3 other processes.") || strings.Contains(text, "busy") {
		t.Errorf("got %s", text)
	}
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
