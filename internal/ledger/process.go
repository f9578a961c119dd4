package ledger

import (
	"cmp"
	"math"
	"slices"
	"time"

	"ingero/internal/stats"
	"ingero/internal/tick"
)

// account is a thread's time, by the parts of a tick.Breakdown.
type account struct {
	gpuWait, callCPU, gapCPU, runnable, throttled, blocked uint64
}

// accountOf divides a thread's time. The parts add up to that of the thread.
func accountOf(t *tick.Thread) account {
	cpu := min(t.Sync.OnCPU, t.InCalls.OnCPU)
	blocked := min(t.Sync.Blocked, t.InCalls.Blocked)
	return account{
		gpuWait:   cpu + blocked,
		callCPU:   t.InCalls.OnCPU - cpu,
		gapCPU:    t.Between.OnCPU,
		runnable:  t.InCalls.Runnable + t.Between.Runnable,
		throttled: t.InCalls.Throttled + t.Between.Throttled,
		blocked:   t.InCalls.Blocked - blocked + t.Between.Blocked,
	}
}

func (a *account) add(o *account) {
	a.gpuWait += o.gpuWait
	a.callCPU += o.callCPU
	a.gapCPU += o.gapCPU
	a.runnable += o.runnable
	a.throttled += o.throttled
	a.blocked += o.blocked
}

func (a *account) total() uint64 {
	return a.gpuWait + a.callCPU + a.gapCPU + a.runnable + a.throttled + a.blocked
}

// process is what is kept of one process.
type process struct {
	pid     uint32
	seen    uint64  // tick
	done    account // of threads that have ended
	sum     account // of all, in this tick
	threads int
	past    int // threads that have ended

	runnable, blocked shares
	lengths           stats.Sketch // of steps
	loss              Loss
}

// step counts a closed step.
func (p *process) step(length int64, loss *Loss) {
	p.lengths.Add(length, 1)
	p.loss.Est += loss.Est
	p.loss.Min += loss.Min
	p.loss.Max += loss.Max
}

// Tick takes in the threads' accounts, forgets what has ended, and fills
// Breakdowns, by process.
func (l *Ledger) Tick(t *tick.Tick) {
	l.ticks++
	for _, p := range l.procs {
		p.sum, p.threads = account{}, 0
	}
	for i := range t.Threads {
		l.account(&t.Threads[i])
	}
	for i := range t.Processes {
		if p := l.procs[t.Processes[i].PID]; p != nil && t.Processes[i].Ended.IsZero() {
			p.seen = l.ticks
		}
	}
	l.settle()
	t.Breakdowns = l.breakdowns()
}

// account takes in one thread's account.
func (l *Ledger) account(x *tick.Thread) {
	th := l.thread(x.PID, x.TID)
	if th == nil {
		if p := l.process(x.PID); p != nil && !x.Enrolled {
			a := accountOf(x)
			p.sum.add(&a)
			p.threads++
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
		th.account = accountOf(x)
	}
	if x.Ended {
		l.claim(th, math.MaxInt64)
		if th.proc != nil {
			th.proc.past++
		}
		l.forget(th)
	}
}

// settle applies the waits that no call will claim soon - the thread makes none,
// or is still in one - and forgets what is over. The order of the threads does
// not matter: each has its own steps, and the shares of a process are ordered by
// the waits of one thread at a time only where it has too many names.
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
		a := p.done
		a.add(&p.sum)
		if a.total() == 0 && p.lengths.Count() == 0 {
			continue
		}
		out = append(out, tick.Breakdown{
			PID: p.pid, Threads: p.threads + p.past, Elapsed: a.total(),
			GPUWait: a.gpuWait, CallCPU: a.callCPU, GapCPU: a.gapCPU,
			Runnable: a.runnable, Throttled: a.throttled, Blocked: a.blocked,
			RunnableBy: p.runnable.top(a.runnable), BlockedOn: p.blocked.top(a.blocked),
			Steps:   int(p.lengths.Count()),
			StepP50: time.Duration(p.lengths.Quantile(0.5)), StepP99: time.Duration(p.lengths.Quantile(0.99)),
			Critical: uint64(p.loss.Est), CriticalMin: uint64(p.loss.Min), CriticalMax: uint64(p.loss.Max),
		})
	}
	slices.SortFunc(out, func(a, b tick.Breakdown) int { return cmp.Compare(a.PID, b.PID) })
	return out
}
