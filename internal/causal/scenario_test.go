package causal

import (
	"bufio"
	"cmp"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ingero/internal/ledger"
	"ingero/internal/tick"
	"ingero/internal/track"
	"ingero/pkg/events"
)

// A scenario is a text: the programs that share a CPU, what the traced program repeats, and the
// expected chains. Lines:
//
//	hog NAME/PID slice=4ms [every=100ms] [from=10s] [to=20s]   on the program's CPU; hypervisor/0: below the kernel
//	quota run=40ms period=100ms
//	attach 5s                    ingero sees nothing before
//	counted 5s                   launches are counted and not timed from then on
//	step NAME [from=5s] [to=20s] a level of govern.Steps is active
//	thread TID steps=4000 [host] [pid=N] [from=1s] the program; the lines of a step follow;
//	                             host: hogs do not run while it synchronizes
//	cpu 1ms [vary=10%] [slow=2ms from=10s to=20s]           between calls; slow: extra time meanwhile
//	launch 10 cpu=5us gpu=1ms [vary=2%] [slow=500us from=10s to=20s] [p=5%]   slow: extra GPU time meanwhile
//	sync spin|block
//	pace 20ms                    sleep until this long after the start of the step
//	call OP cpu=5us [bytes=N] [slow=3ms p=5%] [of=REASON]   slow: extra time, blocked if "of" is set; see cudaCall
//	wait REASON 3ms [p=5%] [at=N] [from=10s to=20s] [dev=254:0] [who=NAME/PID] [sys=fsync] [io] [timer]   between calls
//	fact KIND pid=7 [from=10s] [to=20s] [count=1] [ns=3ms] [bytes=N] [of=OBJECT] [who=NAME/PID]
//	                             host sum in each tick between; who: another process instead of pid
//	fact throttle of=REASON, gpu of=N pid=7, neighbour|late|missing who=NAME/PID, request pid=7|who=NAME/TID every=50ms ns=40ms, xid, lost, failed: see gpuFacts
//	expect silence
//	expect chains N
//	expect untold RULE STEP      the causes that cannot be reported since the level
//	expect RULE SEVERITY [who=NAME] [beside=NAME] [root=WHOSE/DID] [lost=1.4s±5%|lost=true±15%] [conf>=0.8] [conf=0.5] [conf<=0.9] [covers]
//
// ~ in OBJECT is a space.
// covers: the difference below is in the interval.
// lost=true is the difference to the same program without hogs, quota and random faults.
type scenario struct {
	hogs    []*hog
	quota   quota
	attach  int64
	counted int64
	threads []program
	facts   []fact
	steps   []stepSpan
	expect  []string
	end     int64 // when the first program ended; set by run
	lost    int64 // set by truth; 0: not yet
}

type program struct {
	pid   uint32
	tid   uint32
	from  int64
	steps int
	host  bool
	lines [][]string
}

// Each scenario has the expected chains. A level of shedding adds none and removes none in silence.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".txt")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sc := read(t, f)
			got := sc.check(t)
			if len(sc.steps) == 0 && sc.counted == 0 {
				sc.shed(t, name, got)
			}
		})
	}
}

// sumsOnly are the rules about one event, or about requests. The others add up steps, which are in
// the loss by time.
var sumsOnly = []string{"xid", "nccl-missing", "nccl-dead", "oom-kill", "cold-start", "graph-warmup", "device-assert", "version-mismatch", "kv-preemption", "slow-client", "frontend-slow"}

// check plays the scenario, checks what it expects, and returns the chains.
func (sc *scenario) check(t *testing.T) []tick.Chain {
	t.Helper()
	got, untold := sc.run(t)
	for i := range got {
		if c := &got[i]; c.LostMin > c.Lost || c.Lost > c.LostMax || c.LostMax > c.Window {
			t.Errorf("%s lost %v, %v to %v, of %v", c.Rule, c.Lost, c.LostMin, c.LostMax, c.Window)
		}
		if sum := time.Duration(bins(got[i].Spread).sum()); sum > got[i].Lost+time.Millisecond || sum == 0 && got[i].Lost > 0 && !slices.Contains(sumsOnly, got[i].Rule) {
			t.Errorf("%s lost %v, by time %v", got[i].Rule, got[i].Lost, sum)
		}
	}
	for _, x := range sc.expect {
		check(t, sc, got, untold, strings.Fields(x))
	}
	if t.Failed() {
		show(t, got)
	}
	return got
}

func show(t *testing.T, chains []tick.Chain) {
	for _, c := range chains {
		t.Logf("%s %s pid %d tid %d %s lost %v [%v, %v] of %v, excess %v, %d of %d steps slow, confidence %.2f, p50 %v p99 %v without %v",
			c.Severity, c.Rule, c.PID, c.TID, c.Op, c.Lost, c.LostMin, c.LostMax, c.Window, c.Excess, c.Slow, c.Steps, c.Confidence, c.StepP50, c.StepP99, c.Without)
		for _, x := range c.Culprits {
			t.Logf("  %s %d %q %v own %v agent %v", x.Thread.Name, x.Thread.PID, x.What, x.Lost, x.Own, x.Agent)
		}
		for _, m := range c.Timeline {
			t.Logf("  %s [%s] %s", m.Time.Format("05.000"), m.Source, m.Text)
		}
		t.Logf("  not %v; %s", c.NotIt, c.Baseline)
	}
}

// run plays the scenario through a ledger and an engine. It returns the last tick's chains, and the
// causes that cannot be reported.
func (sc *scenario) run(t testing.TB) ([]tick.Chain, []tick.BlindSpot) {
	var batch tick.Batch
	var hidden []events.Call
	for i, p := range sc.threads {
		x := sc.play(t, p, false)
		if i == 0 {
			batch.Calls, batch.Waits, hidden, sc.end = x.calls, x.waits, x.hidden, x.now
			continue
		}
		batch.Calls = append(batch.Calls, x.calls...)
		batch.Waits = append(batch.Waits, x.waits...)
		hidden = append(hidden, x.hidden...)
	}
	slices.SortStableFunc(batch.Calls, func(a, b events.Call) int { return cmp.Compare(a.End(), b.End()) })
	slices.SortStableFunc(batch.Waits, func(a, b events.Wait) int { return cmp.Compare(a.End(), b.End()) })
	slices.SortStableFunc(hidden, func(a, b events.Call) int { return cmp.Compare(a.End(), b.End()) })
	last := (&feeder{hidden: hidden, steps: sc.steps}).feed(&batch, start+sc.attach, 10*ms, sc.facts...)
	return last.Chains, last.Untold
}

// feed sends the records after a time to a ledger and an engine, in polls and ticks.
func feed(all *tick.Batch, from, poll int64, facts ...fact) []tick.Chain {
	last := (&feeder{}).feed(all, from, poll, facts...)
	return last.Chains
}

// feed sends the records after a time to a ledger and an engine, and returns the last tick.
func (f *feeder) feed(all *tick.Batch, from, poll int64, facts ...fact) (out tick.Tick) {
	l, e, tr := ledger.New(1), New(1), track.New()
	sums := account{from: from - start}
	c, w := 0, 0
	for now := from; c < len(all.Calls) || w < len(all.Waits); now += poll {
		b := tick.Batch{}
		for ; w < len(all.Waits) && all.Waits[w].End() <= now; w++ {
			if all.Waits[w].End() > from {
				b.Waits = append(b.Waits, all.Waits[w])
			}
		}
		for ; c < len(all.Calls) && all.Calls[c].End() <= now; c++ {
			if all.Calls[c].End() > from {
				b.Calls = append(b.Calls, all.Calls[c])
			}
		}
		tr.Batch(b.Calls, b.Procs)
		e.Add(l.Batch(b.Waits, b.Calls))
		sums.calls = append(append(sums.calls, b.Calls...), f.until(from, now)...)
		if last := c == len(all.Calls) && w == len(all.Waits); last || (now-from)/s1 != (now+poll-from)/s1 {
			tk := tick.Tick{Time: time.Unix(0, now), Window: time.Second}
			sums.ticked(&tk)
			f.ticked(&tk)
			tk.States = tr.Tick(tk.Processes, tk.Ops)
			ranked(&tk)
			factsAt(&tk, f.seen(facts, now-start))
			tk.Breakdowns = l.Tick(tk.Threads, tk.Processes)
			tk.Chains, tk.Untold = e.Tick(&tk)
			out = tk
		}
	}
	return out
}

// play runs a program; off leaves out the faults.
func (sc *scenario) play(t testing.TB, p program, off bool) *simThread {
	x := newSimThread(p.pid, p.tid, 42)
	x.now += p.from
	x.hogs, x.quota, x.off, x.hostOnly, x.counted, x.steps = sc.hogs, sc.quota, off, p.host, sc.counted, sc.steps
	parsed := make([]option, len(p.lines))
	for i, f := range p.lines {
		parsed[i] = options(t, f)
	}
	for n := range p.steps {
		begin := x.now
		for i, f := range p.lines {
			line(t, x, n, begin, f, &parsed[i])
		}
		if n == p.steps/50 { // what follows needs about 50 times as much
			x.calls, x.waits = slices.Grow(x.calls, 52*len(x.calls)), slices.Grow(x.waits, 52*len(x.waits))
		}
	}
	return x
}

// line executes one line.
func line(t testing.TB, x *simThread, n int, begin int64, f []string, o *option) {
	hit := o.p == 0 || x.bad.Float64() < o.p
	if o.p != 0 && x.off || o.at != 0 && (o.at != n || x.off) {
		hit = false
	}
	if at := x.now - start; (f[0] == "wait" || f[0] == "call") && (at < o.from || at >= o.to || x.off && (o.from != 0 || o.to != math.MaxInt64)) {
		hit = false
	}
	switch f[0] {
	case "cpu":
		need := x.vary(dur(t, f[1]), o.vary)
		if at := x.now - start; !x.off && at >= o.from && at < o.to {
			need += o.slow
		}
		x.use(need)
	case "launch":
		count, _ := strconv.Atoi(f[1])
		for range count * btoi(hit) {
			gpu := o.gpu
			if at := x.now - start; !x.off && at >= o.from && at < o.to {
				gpu += o.slow
			}
			x.launch(o.cpu, x.vary(gpu, o.vary))
		}
	case "sync":
		x.sync(f[1] == "spin")
	case "pace":
		if until := begin + dur(t, f[1]); until > x.now {
			x.block(events.Wait{Reason: events.ReasonSleep, Flags: events.WaitByIRQ}, until)
		}
	case "call":
		c := cudaCallOf(t, f)
		for range c.times * btoi(c.here(n, x.off)) {
			seen := len(x.calls)
			x.call(f[1], uint64(o.bytes), func() {
				x.use(o.cpu)
				switch {
				case !hit || o.slow == 0:
				case o.of != "":
					x.block(events.Wait{Reason: reason(t, o.of)}, x.now+o.slow)
				default:
					x.use(o.slow)
				}
			})
			if len(x.calls) > seen {
				x.give(&c, uint64(o.bytes))
			}
		}
	case "wait":
		if hit {
			x.block(events.Wait{Reason: reason(t, f[1]), Dev: o.dev, Who: o.who, Syscall: o.sys, Flags: o.flags}, x.now+x.vary(dur(t, f[2]), o.vary))
		}
	default:
		t.Fatalf("what is %q?", f)
	}
}

type option struct {
	cpu, gpu, slow                   int64
	slice, every, from, to, run, per int64
	ns, count, pid                   int64
	of                               string
	vary, p                          float64
	bytes, at, steps                 int
	dev                              uint32
	who                              events.Thread
	flags                            events.WaitFlags
	sys                              events.Syscall
}

func options(t testing.TB, f []string) (o option) {
	o.to = math.MaxInt64
	for _, x := range f {
		k, v, ok := strings.Cut(x, "=")
		switch x {
		case "io":
			o.flags |= events.WaitIO
		case "timer":
			o.flags |= events.WaitByIRQ
		}
		if !ok || slices.Contains(callWords, k) {
			continue
		}
		into := map[string]*int64{"cpu": &o.cpu, "gpu": &o.gpu, "slow": &o.slow, "slice": &o.slice, "every": &o.every, "from": &o.from, "to": &o.to, "run": &o.run, "period": &o.per, "ns": &o.ns}
		switch n, _ := strconv.Atoi(v); k {
		case "vary", "p":
			x, err := strconv.ParseFloat(strings.TrimSuffix(v, "%"), 64)
			if err != nil {
				t.Fatal(err)
			}
			*map[string]*float64{"vary": &o.vary, "p": &o.p}[k] = x / 100
		case "bytes", "at", "steps":
			*map[string]*int{"bytes": &o.bytes, "at": &o.at, "steps": &o.steps}[k] = n
		case "count", "pid":
			*map[string]*int64{"count": &o.count, "pid": &o.pid}[k] = int64(n)
		case "of":
			o.of = v
		case "dev":
			major, minor, _ := strings.Cut(v, ":")
			a, _ := strconv.Atoi(major)
			b, _ := strconv.Atoi(minor)
			o.dev = uint32(a<<20 | b)
		case "who":
			o.who = thread(t, v)
		case "sys":
			o.sys = syscall(t, v)
		default:
			if into[k] == nil {
				t.Fatalf("what is %q?", x)
			}
			*into[k] = dur(t, v)
		}
	}
	return o
}

func dur(t testing.TB, v string) int64 {
	d, err := time.ParseDuration(v)
	if err != nil {
		t.Fatal(err)
	}
	return int64(d)
}

func read(t testing.TB, path string) *scenario {
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	sc := &scenario{}
	for in := bufio.NewScanner(file); in.Scan(); {
		text, _, _ := strings.Cut(in.Text(), "#")
		f := strings.Fields(text)
		if len(f) == 0 {
			continue
		}
		o := options(t, f[min(len(f), 1):max(min(len(f), 1), len(f)*btoi(f[0] != "expect"))])
		switch f[0] {
		case "hog":
			sc.hogs = append(sc.hogs, &hog{who: thread(t, f[1]), slice: o.slice, every: o.every, from: o.from, to: o.to})
		case "quota":
			sc.quota = quota{o.run, o.per}
		case "fact":
			sc.facts = append(sc.facts, factOf(t, f, o))
		case "attach":
			sc.attach = dur(t, f[1])
		case "step":
			sc.steps = append(sc.steps, stepSpan{f[1], o.from, o.to})
		case "counted":
			sc.counted = dur(t, f[1])
		case "thread":
			n, _ := strconv.Atoi(f[1])
			sc.threads = append(sc.threads, program{pid: uint32(cmp.Or(o.pid, 7)), tid: uint32(n), from: o.from, steps: o.steps, host: slices.Contains(f, "host")})
		case "expect":
			sc.expect = append(sc.expect, strings.Join(f[1:], " "))
		default:
			p := &sc.threads[len(sc.threads)-1]
			p.lines = append(p.lines, f)
		}
	}
	if len(sc.expect) == 0 {
		t.Fatal("nothing is expected")
	}
	return sc
}
