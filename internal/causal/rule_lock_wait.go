package causal

import (
	"cmp"
	"fmt"
	"slices"

	"ingero/internal/govern"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

var lockWait = Rule{
	Name: "lock-wait", Sees: govern.LaunchCounts, Needs: NeedWaits, Share: 0.01, Slow: 3, Problems: []string{"8"},
	Doc: "The job waited for a lock, or slept between tries to get a file lock, or waited until another of its threads finished, changed the memory map, served a page fault or read from a queue.",
	Claims: &Claims{
		Part: func(p *Part) bool {
			return p.State == events.WaitBlocked && (p.Root == events.ReasonLock || p.Root == events.ReasonGIL || p.isThreadWait() && p.isInputWait())
		},
		// Threads of a process hand work to each other, and wait until it is done.
		Baseline: func(p *Part) baseline {
			if p.isThreadWait() {
				return baselineHandOver
			}
			return baselineLearned
		},
		Key: func(p *Part) Key {
			if p.Via.TID != 0 {
				return Key{ID: p.Via.TID, Reason: p.Reason, Did: cmp.Or(p.receives(), p.pollsSleeper(), p.awaits().did)}
			}
			return Key{ID: p.Who.TID, Did: cmp.Or(p.pollsSleeper(), p.awaits().did)}
		},
		Blame: func(p *Part) (group, what string) {
			switch group = "lock"; {
			case p.pollsSleeper() != tick.ActivityUnknown:
				group = sleeper
			case p.awaits().group != inputGroup:
				group = p.awaits().group
			}
			switch {
			case p.receives() != tick.ActivityUnknown:
				return receiver, blockedItself(p.Reason)
			case p.Via.TID != 0:
				return group, blockedItself(p.Reason)
			case acts(group):
				return group, "was busy while the job waited " + p.awaits().what
			}
			return group, holdsLock
		},
		Started: true,
		Word:    "locks",
	},
	// The first waits of a server for a thread that receives requests end before it has a known client.
	Find: joinFinds(claimed(func(w *Window, x *Finding) bool {
		return (x.Group != receiver || !w.idles(x)) && (x.Group != sleeper || !w.habit(x))
	}), (*Window).noPeer),
}

// idles reports whether a finding's waits for threads that receive may mostly have been waits for requests.
func (w *Window) idles(x *Finding) bool {
	unseen := w.unseen(x.PID, x.From, x.To)&govern.HostEvents != 0
	return w.e.relations.answers(x.PID) && (unseen || w.e.servers[x.PID] != nil || w.sure(x) < 0.5)
}

// noPeer returns the waits of processes with clients for own threads that received no requests meanwhile,
// if no other peer is known: the threads may hold a lock.
func (w *Window) noPeer() (out []Finding) {
	for _, x := range w.claimed[ruleNamed(peerSlow.Name)] {
		if _, ok := w.peerOf(&x); ok || !x.Culprits[0].Own || w.idles(&x) {
			continue
		}
		x.Culprits = slices.DeleteFunc(slices.Clone(x.Culprits), func(c tick.Culprit) bool { return !c.Own })
		for i := range x.Culprits {
			x.Culprits[i].What = "was blocked itself: it waited for data"
		}
		x.ruledOut = slices.DeleteFunc(slices.Clone(x.ruledOut), func(word string) bool { return word == Rules[w.running].Claims.Word })
		out = append(out, x)
	}
	return out
}

// holdsLock is what a thread did that was not blocked itself.
const holdsLock = "held a lock, or had not finished"

// receiver is the group of waits for threads that may receive requests.
const receiver = "receiver"

// sleeper is the group of waits in poll for own threads that slept, or of which nothing is known: the thread
// may post work at times, and the job has nothing to do until then.
const sleeper = "sleeper"

// pollsSleeper returns that a thread of the victim's own slept, as far as it is known, while the victim polled
// for it.
func (p *Part) pollsSleeper() tick.Activity {
	if unknown := p.Waker.TID == 0 || 2*p.Unknown > p.NS; p.Root == events.ReasonPoll && p.isThreadWait() && (p.sleeps() || unknown) {
		return tick.ActivitySleep
	}
	return tick.ActivityUnknown
}

// habit reports whether the steps that a finding made slow recur all the time, or are too few to tell.
func (w *Window) habit(x *Finding) bool {
	steps := w.stepsFound(x)
	var slow []slowStep
	count := 0.0
	for i := range steps {
		if slices.ContainsFunc(steps[i].excess(), func(g excess) bool { c := w.cause(g); return c.rule() == x.rule && c.group == x.Group }) {
			slow = append(slow, slowStep{step: &steps[i]})
			count += steps[i].weight
		}
	}
	return count < fewestSlow && x.Lost < longStall || recurs(slow, nil, steps)
}

// receives returns what the thread of the victim that it waited for did, if it may receive requests. The
// holder of the GIL, or of the memory map, is to blame whatever it waits for.
func (p *Part) receives() tick.Activity {
	if p.Via.PID == p.Victim && p.Root != events.ReasonGIL && p.awaits().group == inputGroup && (p.Reason == events.ReasonSocket || p.Reason == events.ReasonPoll) {
		return tick.ActivityPeer
	}
	return tick.ActivityUnknown
}

// blockedItself says why a thread that the victim waited for was blocked.
func blockedItself(why events.Reason) string { return fmt.Sprintf("was blocked itself: %s", why) }
