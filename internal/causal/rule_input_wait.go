package causal

import (
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// inputWait requires five times the usual share: occasional short waits for input are normal.
var inputWait = Rule{
	Name: "input-wait", Needs: NeedWaits, Share: 0.05, Slow: 10, Problems: []string{"2", "12"},
	Doc: "The job waited for input from one of its workers, or until a worker served a page fault, read from a queue, took the job's output or answered its request. The worker was too slow: it ran on a CPU meanwhile, or slept longer than usual.",
	Claims: &Claims{
		Part: func(p *Part) bool {
			return p.crowdedWorker() || p.State == events.WaitBlocked && p.isInputWait() &&
				(p.Via.TID == 0 && (p.Busy && p.makesInput(p.Relation) || p.isNewWorkerWait()) || p.sleeps() && p.makesInput(p.ViaRelation))
		},
		// A worker that sleeps may keep a pace. Workers that share a CPU always delay each other a
		// little, and handing over data that is ready takes a little, too.
		Baseline: func(p *Part) baseline {
			switch {
			case p.sleeps():
				return baselinePace
			case p.crowdedWorker():
				return baselineMeeting
			case !forAnother(p.Root):
				return baselineHandOver
			}
			return baselineLittle
		},
		Key: func(p *Part) Key {
			switch {
			case p.sleeps():
				return Key{ID: p.Via.PID, Reason: p.asleep(), Did: p.awaits().did}
			case p.crowdedWorker():
				return Key{ID: p.Who.PID, Did: tick.ActivityCrowd}
			}
			return Key{ID: p.Who.PID, Did: p.awaits().did}
		},
		Blame: func(p *Part) (group, what string) {
			a := p.awaits()
			switch {
			case p.State != events.WaitBlocked && a.group == replyGroup:
				return a.group, "took the CPU that another worker needed while the job waited " + a.what
			case p.State != events.WaitBlocked:
				return inputGroup, "prepared input on the CPU that another worker needed"
			case p.sleeps():
				return a.group, "slept while the job waited " + a.what
			case a.group == replyGroup:
				return a.group, "answered late: the job waited " + a.what
			case a.group != inputGroup:
				return a.group, "was busy while the job waited " + a.what
			}
			return inputGroup, "prepared input while the job waited"
		},
		Started: true,
	},
}

// awaited is what a victim waited for.
type awaited struct {
	did         tick.Activity // of a key: 0 for input
	group, what string
}

// The groups of waits, by what the victim waited for.
const (
	inputGroup  = "input"
	memoryGroup = "memory"
	callGroup   = "call"
	outputGroup = "output"
	replyGroup  = "reply"
)

// acts reports whether a group is of waits that only a thread of this machine can end, and no request.
func acts(group string) bool {
	return group == memoryGroup || group == callGroup || group == outputGroup || group == replyGroup
}

// awaits returns what the victim waited for.
func (p *Part) awaits() awaited {
	switch p.Root {
	case events.ReasonMemory, events.ReasonFault:
		return awaited{tick.ActivityPage, memoryGroup, tick.ForMemory}
	case events.ReasonPipe, events.ReasonSocket, events.ReasonOther:
		if p.RootCall.Sends() {
			return awaited{tick.ActivityWrite, outputGroup, tick.ForOutput}
		}
	}
	if p.Root == events.ReasonOther {
		return awaited{tick.ActivityCompute, callGroup, tick.ForCall}
	}
	if p.Server {
		return awaited{tick.ActivityUnknown, replyGroup, tick.ForReply}
	}
	return awaited{tick.ActivityUnknown, inputGroup, "for its input"}
}

// makesInput reports whether a thread with relation w makes the victim's input: a worker, or a rank
// that writes to a pipe.
func (p *Part) makesInput(w tick.Relation) bool {
	return w == tick.RelationWorker || w == tick.RelationRank && p.Root == events.ReasonPipe
}

// isNewWorkerWait reports whether the victim waited at a socket for a worker whose activity is
// unknown.
func (p *Part) isNewWorkerWait() bool {
	return p.Relation == tick.RelationWorker && (p.Root == events.ReasonSocket || p.Root == events.ReasonPoll)
}

// sleeps reports whether the part is the sleep of a thread that the victim waited for.
func (p *Part) sleeps() bool { return p.asleep() != 0 }

func (p *Part) asleep() events.Reason {
	if p.Via.TID != 0 && p.State == events.WaitBlocked && p.Reason == events.ReasonSleep {
		return p.Reason
	}
	return 0
}

// isInputWait reports whether the victim waited for data: at a pipe or socket, or for a thread of
// its process that waits there for another process; or until a thread acted in another way: see servedBy.
func (p *Part) isInputWait() bool {
	switch p.Root {
	case events.ReasonPipe, events.ReasonSocket, events.ReasonPoll:
		return true
	case events.ReasonLock:
		return p.Waker.PID == p.Victim
	}
	end := p.end()
	return servedBy(p.Root, p.Flags, &end)
}
