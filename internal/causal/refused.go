package causal

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

const (
	// refusedMore is how many times as often as at other times a process must have been refused file locks while
	// its slow steps ran: else it does not sleep because of them. The slow steps may take at most as many times as
	// long as the other ones: with less to compare, nothing is known.
	refusedMore = 10
	// holderShare is the smallest share of the refusals of a holder that is named.
	holderShare = 0.1
	// fileLock is the group of the findings.
	fileLock = "file-lock"
)

// slowAndRefused returns the slow steps of a process, and the file locks that it was refused in them: see
// refusals. Sleeps between tries are no habit, however many steps have them.
func (w *Window) slowAndRefused(p *process, b *ProcessHistory) ([]slowStep, []tick.HostSum) {
	slow := w.slowSteps(p, false)
	locks := p.refusals(b, slow)
	if locks == nil && slices.ContainsFunc(b.Host, func(h HostSample) bool { return h.Kind == tick.HostLockRefused }) {
		asleep := w.slowSteps(p, true)
		if locks = p.refusals(b, asleep); locks != nil {
			return asleep, locks
		}
	}
	return slow, locks
}

// refusals returns the file locks that a process tried to get in vain in the seconds of its slow steps, by holder
// and file. It returns nil unless that is why the steps were slow: they slept more than they
// computed, each was refused a lock, and hardly any lock was refused at other times.
func (p *process) refusals(b *ProcessHistory, slow []slowStep) []tick.HostSum {
	var steps, computed, slept float64
	for i := range slow {
		y := &slow[i]
		computed, slept = computed+y.weight*float64(y.gap), slept+y.weight*float64(y.asleep)
		if y.asleep > 0 {
			steps += y.weight
		}
	}
	if slept <= computed {
		return nil
	}
	isSlow := func(from, to int64) bool {
		for i := range slow {
			if y := &slow[i]; y.asleep > 0 && y.from < to && y.to() > from {
				return true
			}
		}
		return false
	}
	isOther := func(from, to int64) bool { // before the first step it starts, and after the last one a step may go on
		return !isSlow(from, to) && to > p.from && to <= p.to
	}
	var locks tick.HostSums
	var in, out float64
	for i := range b.Host {
		switch h := &b.Host[i]; {
		case h.Kind != tick.HostLockRefused:
		case isSlow(h.From, h.To):
			in += float64(h.Count)
			locks.Add([]tick.HostSum{h.HostSum})
		case isOther(h.From, h.To):
			out += float64(h.Count)
		}
	}
	if in == 0 || in < steps {
		return nil
	}
	var slowTime, otherTime float64
	for i := range b.Seconds {
		s := &b.Seconds[i]
		switch {
		case isSlow(s.From, s.To):
			slowTime += float64(s.To - s.From)
		case isOther(s.From, s.To):
			otherTime += float64(s.To - s.From)
		}
	}
	if refusedMore*otherTime < slowTime || refusedMore*out*slowTime > in*otherTime {
		return nil
	}
	return locks.List()
}

// polled gives a finding of the running rule to lock-wait: the job slept between tries to get file locks, at the
// place of stack.
func (w *Window) polled(x Finding, locks []tick.HostSum, worst *slowStep, stack uint32) {
	if x.Slow < lockWait.Slow && x.Lost < int64(decisiveLoss) {
		return
	}
	from := &Rules[w.running]
	x.Min, x.Max = from.interval(float64(x.Min), float64(x.Lost), float64(x.Max), x.Window)
	x.instead, x.Group = []string{chainID(x.PID, from.Name, x.Group)}, fileLock
	x.Timeline = []tick.Moment{moment(worst.from, "CUDA", "slowest step: %s, of which %s asleep between tries to get a lock", span(worst.length), span(worst.asleep))}
	held := byHolder(locks)
	all := 0.0
	for i := range held {
		all += float64(held[i].count)
	}
	for i := range held {
		h := &held[i]
		share := float64(h.count) / all
		if i > 0 && share < holderShare {
			break
		}
		c := w.e.relations.holder(x.PID, h)
		c.Stack, c.Lost = stack, time.Duration(share*float64(x.Lost))
		x.Culprits = append(x.Culprits, c)
	}
	w.give(lockWait.Name, x)
}

// refusedBy are the locks of a holder.
type refusedBy struct {
	holder uint32 // 0: unknown
	file   string // with the most refusals; "": unknown
	most   uint64 // refusals of file
	files  int
	count  uint64 // refusals
}

// byHolder adds up refusals by holder, most refusals first.
func byHolder(locks []tick.HostSum) (out []refusedBy) {
	for i := range locks {
		h := &locks[i]
		n := slices.IndexFunc(out, func(x refusedBy) bool { return x.holder == h.Sender })
		if n < 0 {
			n, out = len(out), append(out, refusedBy{holder: h.Sender})
		}
		x := &out[n]
		x.files, x.count = x.files+1, x.count+h.Count
		if h.Count > x.most {
			x.file, x.most = h.Object, h.Count
		}
	}
	slices.SortStableFunc(out, func(a, b refusedBy) int { return cmp.Compare(b.count, a.count) })
	return out
}

// lock names the locks.
func (x *refusedBy) lock() string {
	switch {
	case x.files > 1 && x.file == "":
		return fmt.Sprintf("locks on %d files", x.files)
	case x.files > 1:
		return fmt.Sprintf("locks on %d files, most often %s", x.files, x.file)
	}
	return "a lock on " + cmp.Or(x.file, "a file")
}

// holder returns the holder of locks that a process was refused.
func (k *relations) holder(pid uint32, h *refusedBy) tick.Culprit {
	tried := "; the job tried to get it "
	if h.files > 1 {
		tried = "; the job tried to get them "
	}
	if h.count == 1 {
		tried += "once"
	} else {
		tried += fmt.Sprintf("%d times", h.count)
	}
	if h.holder == 0 {
		return tick.Culprit{What: h.lock() + " whose holder is unknown" + tried, Root: tick.Root{Did: tick.ActivityHold}}
	}
	name := k.names[h.holder]
	c := tick.Culprit{Thread: events.Thread{PID: h.holder, TID: h.holder, Name: events.NameOf(name)}, Own: h.holder == pid, What: "held " + h.lock() + tried}
	if name == "" { // a process that inherited the file may hold the lock now
		c.What = "took " + h.lock() + " and may have ended" + tried
	}
	c.Root = tick.Root{Whose: k.relation(pid, &c.Thread), Did: tick.ActivityHold}
	return c
}
