package ledger

import (
	"cmp"
	"math"
	"slices"
	"time"

	"ingero/internal/stats"
	"ingero/internal/tick"
)

// account is a thread's time by place.
type account [tick.Places]tick.Times

// accountOf divides a thread's time. The parts add up to the total.
func accountOf(t *tick.Thread) account {
	sync := tick.Times{
		OnCPU: min(t.Sync.OnCPU, t.InCalls.OnCPU), Runnable: min(t.Sync.Runnable, t.InCalls.Runnable),
		Throttled: min(t.Sync.Throttled, t.InCalls.Throttled), Blocked: min(t.Sync.Blocked, t.InCalls.Blocked),
	}
	return account{tick.InGPUWaits: sync, tick.InCalls: less(&t.InCalls, &sync), tick.BetweenCalls: t.Between}
}

// less returns a minus part.
func less(a, part *tick.Times) tick.Times {
	return tick.Times{OnCPU: a.OnCPU - part.OnCPU, Runnable: a.Runnable - part.Runnable, Throttled: a.Throttled - part.Throttled, Blocked: a.Blocked - part.Blocked}
}

func (a *account) add(o *account) {
	for p := range a {
		a[p].Add(&o[p])
	}
}

func (a *account) total() (ns uint64) {
	for p := range a {
		ns += a[p].Total()
	}
	return ns
}

// fill sets the fields of a breakdown from the account.
func (a *account) fill(b *tick.Breakdown) {
	sync, calls, gaps := &a[tick.InGPUWaits], &a[tick.InCalls], &a[tick.BetweenCalls]
	b.Elapsed = a.total()
	b.GPUWait, b.CallCPU, b.GapCPU = sync.OnCPU+sync.Blocked, calls.OnCPU, gaps.OnCPU
	b.Runnable = sync.Runnable + calls.Runnable + gaps.Runnable
	b.Throttled = sync.Throttled + calls.Throttled + gaps.Throttled
	b.Blocked = calls.Blocked + gaps.Blocked
}

// process is the state of one process.
type process struct {
	pid          uint32
	seen         uint64  // tick
	done         account // of ended threads
	sum          account // of all threads, in this tick
	threads      int
	past         int // ended threads
	listed       int // threads with a separate account, including those in gone
	endedThreads []tick.ThreadTime
	live         []*thread       // running threads with a separate account, in this tick
	over         *tick.Breakdown // cached result, valid until a thread of the process appears (Ledger.process)

	names
	lengths     stats.Sketch // of steps
	loss        Loss
	open        *tick.LoopStep // of the main thread, the one with the most steps
	stepsOfMain int
	mainLives   bool
	lastStep    int64 // end of the last step of any thread
}

// step counts a closed step.
func (p *process) step(length int64, loss *Loss) {
	p.lengths.Add(length, 1)
	p.loss.Est += loss.Est
	p.loss.Min += loss.Min
	p.loss.Max += loss.Max
}

// Tick adds the threads' accounts, drops what has ended, and returns the breakdowns of all
// processes, by PID.
func (l *Ledger) Tick(threads []tick.Thread, processes []tick.Process) []tick.Breakdown {
	l.ticks++
	for _, p := range l.procs {
		p.sum, p.threads, p.live = account{}, 0, p.live[:0]
	}
	for i := range threads {
		l.account(&threads[i])
	}
	for i := range processes {
		if p := l.procs[processes[i].PID]; p != nil && processes[i].Ended.IsZero() {
			p.seen = l.ticks
		}
	}
	l.settle()
	return l.breakdowns()
}

// account takes in one thread's account.
func (l *Ledger) account(x *tick.Thread) {
	th := l.thread(x.PID, x.TID)
	if th == nil {
		if p := l.process(x.PID); p != nil && !x.Enrolled {
			a := accountOf(x)
			if x.Ended {
				p.done.add(&a)
				p.past++
			} else {
				p.sum.add(&a)
				p.threads++
			}
		}
		return
	}
	th.seen = l.ticks
	th.past.begin(x.Since)
	th.enrolled = x.Enrolled && th.steps == nil
	if th.enrolled {
		l.pending -= th.waiting()
		th.queue, th.head = nil, 0
	} else if th.proc == nil {
		th.proc = l.process(x.PID)
	}
	if !x.Enrolled {
		th.account, th.comm = accountOf(x), x.Comm
		if th.proc != nil {
			th.proc.unfinished(th, x)
		}
	}
	if x.Ended {
		l.claim(th, math.MaxInt64)
		if th.proc != nil {
			th.proc.past++
		}
		rest := th.past.after(x.Until) // it may have an account again
		l.forget(th)
		if rest.known {
			l.thread(x.PID, x.TID).past = rest
		}
	}
}

// settle applies the waits that no call will claim soon, because the thread makes no calls or is
// still in one. It drops threads that are gone. The order of the threads does not matter: each has
// its own steps. The shares of a process depend on the order of one thread's waits only when it has
// too many names.
func (l *Ledger) settle() {
	ids := make([]uint32, 0, len(l.threads))
	for id := range l.threads {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		th := l.threads[id]
		l.claim(th, l.newest-periodNS)
		if len(th.queue) == 0 && cap(th.queue) > 64 {
			th.queue = nil
		}
		if l.ticks-th.seen > idleTicks {
			if th.proc != nil {
				th.proc.past++
			}
			l.forget(th)
			continue
		}
		if p := th.proc; p != nil {
			p.seen = max(p.seen, th.seen)
			p.sum.add(&th.account)
			p.threads++
			if p.lists(th) {
				p.live = append(p.live, th)
			}
		}
	}
	for pid, p := range l.procs {
		if l.ticks-p.seen > idleTicks {
			delete(l.procs, pid)
		}
	}
}

func (l *Ledger) breakdowns() []tick.Breakdown {
	out := make([]tick.Breakdown, 0, len(l.procs))
	for _, p := range l.procs {
		b := p.over
		if b == nil {
			if b = p.breakdown(); p.threads == 0 {
				p.over = b
			}
		}
		if b.Elapsed > 0 || b.Steps > 0 {
			out = append(out, *b)
		}
	}
	slices.SortFunc(out, func(a, b tick.Breakdown) int { return cmp.Compare(a.PID, b.PID) })
	return out
}

func (p *process) breakdown() *tick.Breakdown {
	a := p.done
	a.add(&p.sum)
	b := &tick.Breakdown{
		PID: p.pid, Threads: p.threads + p.past, Steps: int(p.lengths.Count()),
		StepP50: time.Duration(p.lengths.Quantile(0.5)), StepP99: time.Duration(p.lengths.Quantile(0.99)), Lengths: p.lengths.Clone(),
		Critical: uint64(p.loss.Est), CriticalMin: uint64(p.loss.Min), CriticalMax: uint64(p.loss.Max), ByThread: p.byThread(&a), Open: p.unfinishedStep(),
	}
	a.fill(b)
	b.RunnableBy, b.BlockedOn = p.runnable.top(b.Runnable), p.blocked.top(b.Blocked)
	return b
}
