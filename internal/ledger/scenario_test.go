package ledger

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// A scenario is a text. Times are since its start; threads belong to process 7 unless written
// PID/TID.
//
//	wait TID runnable|throttled|REASON at=1ms dur=4ms [who=NAME/TID] [taken=3ms]
//	     [op=OP] [call=SYSCALL] [dev=N] [stack=N] [prev] [irq] [idle] [io] [stolen]
//	call TID OP at=1ms dur=2ms [cpu=1ms] [run=] [thr=] [gap=] [gcpu=] [grun=]
//	     [gthr=] [bytes=] [weight=] [launches=] [nested] [unmeasured] [partial] [gappartial]
//	     the rest of dur and gap is blocked
//	thread TID [enrolled] [ended] since=0s incalls=CPU,RUN,THR,BLK between=... sync=...
//	batch                    ends a batch
//	tick at=1s
//	step N key=value ...     the expected step N (from 0)
//	waits N NAME:STATE:NS[!] ...    its waits, ! for critical
//	ops N OP:COUNT:NS:OWN ...
//	breakdown PID key=value ...
//	by PID NAME:NS:COUNT ... / on PID REASON:NAME[@STACK]:NS:COUNT[(waker parts)] ...
type player struct {
	t     *testing.T
	l     *Ledger
	batch tick.Batch
	tick  tick.Tick
	steps []Step
}

func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			p := &player{t: t, l: New(99)}
			n := 0
			for line := range strings.Lines(string(text)) {
				n++
				line, _, _ = strings.Cut(line, "#")
				if f := strings.Fields(line); len(f) > 0 {
					p.line(n, f)
				}
			}
		})
	}
}

func (p *player) line(n int, f []string) {
	o := p.options(f)
	switch f[0] {
	case "wait":
		p.batch.Waits = append(p.batch.Waits, o.wait(f))
	case "call":
		p.batch.Calls = append(p.batch.Calls, o.call(f))
	case "thread":
		p.tick.Threads = append(p.tick.Threads, o.thread())
	case "batch", "tick":
		p.send()
		if f[0] == "tick" {
			p.tick.Time = time.Unix(0, base+o.at)
			p.tick.Breakdowns = p.l.Tick(p.tick.Threads, p.tick.Processes)
			p.tick.Threads = nil
		}
	case "steps":
		p.send()
		if got := strconv.Itoa(len(p.steps)); got != f[1] {
			p.t.Errorf("line %d: %s steps, want %s", n, got, f[1])
		}
	case "step", "waits", "ops":
		p.send()
		i, _ := strconv.Atoi(f[1])
		if i >= len(p.steps) {
			p.t.Fatalf("line %d: %d steps", n, len(p.steps))
		}
		s := &p.steps[i]
		p.compare(n, f[2:], map[string]string{"step": stepText(s), "waits": waitsText(s), "ops": opsText(s)}[f[0]], f[0] == "step")
	case "breakdown", "by", "on":
		for i := range p.tick.Breakdowns {
			if b := &p.tick.Breakdowns[i]; fmt.Sprint(b.PID) == f[1] {
				p.compare(n, f[2:], map[string]string{"breakdown": breakdownText(b), "by": sharesText(b.RunnableBy), "on": sharesText(b.BlockedOn)}[f[0]], f[0] == "breakdown")
				return
			}
		}
		if len(f) > 2 && f[2] != "none" {
			p.t.Errorf("line %d: no breakdown of %s", n, f[1])
		}
	default:
		p.t.Fatalf("line %d: what is %q?", n, f[0])
	}
}

// send passes the batch on, and keeps copies of the steps.
func (p *player) send() {
	p.steps = append(p.steps, copySteps(p.l.Batch(p.batch.Waits, p.batch.Calls))...)
	p.batch = tick.Batch{}
}

func copySteps(steps []Step) []Step {
	out := append([]Step(nil), steps...)
	for i := range out {
		out[i].Ops = append([]OpTime(nil), out[i].Ops...)
		out[i].Waits = append([]Wait(nil), out[i].Waits...)
	}
	return out
}

// compare requires all words, or, with some, the given key=value words.
func (p *player) compare(n int, want []string, got string, some bool) {
	if !some {
		if w := strings.Join(want, " "); w != got && !(w == "none" && got == "") {
			p.t.Errorf("line %d:\n got %s\nwant %s", n, got, w)
		}
		return
	}
	for _, w := range want {
		if !strings.Contains(" "+got+" ", " "+w+" ") {
			p.t.Errorf("line %d: got %s\nwant %s", n, got, w)
		}
	}
}

func d(ns int64) string { return time.Duration(ns).String() }

func stepText(s *Step) string {
	x := &s.Parts
	var blocked []string
	for r, ns := range x.Blocked {
		if ns != 0 {
			blocked = append(blocked, fmt.Sprintf("%s:%s", events.Reason(r), d(ns)))
		}
	}
	op := "none"
	if s.Op != 0 {
		op = s.Op.String()
	}
	return fmt.Sprintf("tid=%d from=%s len=%s op=%s period=%v calls=%d launches=%d gpu=%s syncrun=%s syncthr=%s callcpu=%s gapcpu=%s lead=%s run=%s thr=%s blocked=%s unknown=%s loss=%s..%s..%s",
		s.TID, d(s.From-base), d(s.Length()), op, s.Period, s.Calls, s.Launches, d(x.GPUWait), d(x.SyncRunnable), d(x.SyncThrottled),
		d(x.CallCPU), d(x.GapCPU), d(s.Lead), d(x.Runnable), d(x.Throttled), strings.Join(blocked, ","), d(x.Unknown), d(s.Loss.Min), d(s.Loss.Est), d(s.Loss.Max))
}

func waitsText(s *Step) string {
	var out []string
	for _, w := range s.Waits {
		state := w.State.String()
		if w.State == events.WaitBlocked || w.Reason != 0 {
			state = w.Reason.String()
		}
		text := fmt.Sprintf("%s:%s:%s", w.Who.Name, state, d(w.NS))
		if w.Critical {
			text += "!"
		}
		out = append(out, text+wakerText(&w.Waker))
	}
	return strings.Join(out, " ")
}

func wakerText(w *tick.WakerShare) string {
	if w == nil || w.Total() == 0 {
		return ""
	}
	by := w.By.Name.String()
	if w.Hypervisor {
		by += "hypervisor"
	}
	return fmt.Sprintf("(%s,%s,%s,%s/%s/%s)", d(int64(w.OnCPU)), d(int64(w.Runnable)), d(int64(w.Throttled)), d(int64(w.Blocked)), w.Reason, by)
}

func opsText(s *Step) string {
	var out []string
	for _, o := range s.Ops {
		out = append(out, fmt.Sprintf("%s/%d:%d:%s:%s", o.Op, o.Size, o.Count, d(o.NS), d(o.Own)))
	}
	return strings.Join(out, " ")
}

func breakdownText(b *tick.Breakdown) string {
	return fmt.Sprintf("threads=%d elapsed=%s gpu=%s callcpu=%s gapcpu=%s run=%s thr=%s blocked=%s steps=%d critical=%s..%s..%s",
		b.Threads, d(int64(b.Elapsed)), d(int64(b.GPUWait)), d(int64(b.CallCPU)), d(int64(b.GapCPU)), d(int64(b.Runnable)), d(int64(b.Throttled)),
		d(int64(b.Blocked)), b.Steps, d(int64(b.CriticalMin)), d(int64(b.Critical)), d(int64(b.CriticalMax)))
}

func sharesText(list []tick.Share) string {
	var out []string
	for _, s := range list {
		name := s.Who.Name.String()
		switch {
		case s.Idle:
			name = "idle"
		case s.ByIRQ:
			name = "irq"
		case s.Agent:
			name += "(agent)"
		case s.Own:
			name += "(own)"
		}
		if s.Stack != 0 {
			name += "@" + strconv.Itoa(int(s.Stack))
		}
		if s.Reason != 0 {
			name = s.Reason.String() + ":" + name
		}
		out = append(out, fmt.Sprintf("%s:%s:%d%s", name, d(int64(s.NS)), s.Count, wakerText(s.Waker)))
	}
	return strings.Join(out, " ")
}

// base is when scenarios begin.
const base = int64(1_700_000_000e9)

type options struct {
	t                                           *testing.T
	pid, tid                                    uint32
	at, dur, taken, cpu, run, thr               int64
	gap, gcpu, grun, gthr, since, bytes, weight int64
	launches                                    int
	dev                                         int64
	text                                        map[string]string
}

func (p *player) options(f []string) (o options) {
	o = options{t: p.t, pid: 7, taken: math.MinInt64, weight: 1, text: map[string]string{}}
	if len(f) > 1 {
		pid, tid, both := strings.Cut(f[1], "/")
		if !both {
			pid, tid = "7", pid
		}
		o.pid, o.tid = number(pid), number(tid)
	}
	into := map[string]*int64{"at": &o.at, "dur": &o.dur, "taken": &o.taken, "cpu": &o.cpu, "run": &o.run, "thr": &o.thr, "gap": &o.gap,
		"gcpu": &o.gcpu, "grun": &o.grun, "gthr": &o.gthr, "since": &o.since}
	for _, x := range f {
		k, v, _ := strings.Cut(x, "=")
		o.text[k] = v
		if to := into[k]; to != nil && v != "" {
			*to = nanos(p.t, v)
		}
	}
	o.bytes, o.dev = int64(number(o.text["bytes"])), int64(number(o.text["dev"]))
	if v := o.text["weight"]; v != "" {
		o.weight = int64(number(v))
	}
	if v := o.text["launches"]; v != "" {
		o.launches = int(number(v))
	}
	return o
}

func number(v string) uint32 {
	n, _ := strconv.ParseUint(v, 10, 32)
	return uint32(n)
}

func nanos(t *testing.T, v string) int64 {
	x, err := time.ParseDuration(v)
	if err != nil {
		t.Fatal(err)
	}
	return int64(x)
}

func (o *options) op(name string) events.Op {
	op, ok := events.OpByName(name)
	if !ok && name != "" {
		o.t.Fatalf("no operation is called %q", name)
	}
	return op
}

func (o *options) has(word string) bool { _, ok := o.text[word]; return ok }

func (o *options) who() events.Thread {
	name, tid, ok := strings.Cut(o.text["who"], "/")
	if !ok {
		return events.Thread{}
	}
	n := number(tid)
	pid := n
	if n < 50 { // a thread of the same process
		pid = o.pid
	}
	return events.Thread{PID: pid, TID: n, Name: events.NameOf(name)}
}

func (o *options) wait(f []string) events.Wait {
	w := events.Wait{Start: base + o.at, Duration: o.dur, PID: o.pid, TID: o.tid, Who: o.who(), Op: o.op(o.text["op"]), Dev: uint32(o.dev), Stack: number(o.text["stack"])}
	switch f[2] {
	case "runnable":
		w.State, w.Taken = events.WaitRunnable, o.taken
		if o.taken == math.MinInt64 {
			w.Taken = o.dur
		}
		if o.has("stolen") {
			w.Reason = events.ReasonHypervisor
		}
	case "throttled":
		w.State = events.WaitThrottled
	default:
		w.State = events.WaitBlocked
		for r := events.ReasonUnknown; int(r) < Reasons; r++ {
			if r.String() == f[2] {
				w.Reason = r
			}
		}
	}
	for word, flag := range map[string]events.WaitFlags{"prev": events.WaitPrevious, "irq": events.WaitByIRQ, "idle": events.WaitIdle, "io": events.WaitIO} {
		if o.has(word) {
			w.Flags |= flag
		}
	}
	return w
}

func (o *options) call(f []string) events.Call {
	c := events.Call{
		Start: base + o.at, Duration: o.dur, OnCPU: o.cpu, Runnable: o.run, Throttled: o.thr, Blocked: o.dur - o.cpu - o.run - o.thr,
		Gap: o.gap, GapOnCPU: o.gcpu, GapRunnable: o.grun, GapThrottled: o.gthr, GapBlocked: o.gap - o.gcpu - o.grun - o.gthr,
		PID: o.pid, TID: o.tid, Op: o.op(f[2]), Weight: uint32(o.weight), Launches: uint16(o.launches), Args: [events.MaxArgs]uint64{uint64(o.bytes)},
	}
	for word, flag := range map[string]events.CallFlags{"nested": events.CallNested, "unmeasured": events.CallUnmeasured, "partial": events.CallLedgerPartial, "gappartial": events.CallGapPartial} {
		if o.has(word) {
			c.Flags |= flag
		}
	}
	return c
}

func (o *options) thread() tick.Thread {
	times := func(k string) (x tick.Times) {
		v := strings.Split(o.text[k], ",")
		if len(v) == 4 {
			x = tick.Times{OnCPU: uint64(nanos(o.t, v[0])), Runnable: uint64(nanos(o.t, v[1])), Throttled: uint64(nanos(o.t, v[2])), Blocked: uint64(nanos(o.t, v[3]))}
		}
		return x
	}
	return tick.Thread{PID: o.pid, TID: o.tid, Enrolled: o.has("enrolled"), Ended: o.has("ended"), Since: base + o.since,
		InCalls: times("incalls"), Between: times("between"), Sync: times("sync")}
}
