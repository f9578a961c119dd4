package causal

import (
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// inputWait asks for five times the share of the others: a job that waits a little for
// its input now and then is well fed.
var inputWait = Rule{
	Name: "input-wait", Needs: NeedWaits, Share: 0.05, Slow: 10, Problems: []string{"2", "12"},
	Doc: "The job waited for a worker of its own that makes its input, and that was on a CPU meanwhile: the worker is too slow.",
	Claims: &Claims{
		Part: func(p *Part) bool {
			return p.crowdedWorker() || p.State == events.WaitBlocked && p.Busy && p.Via.TID == 0 && p.Whose == tick.OfWorker && p.ofInput()
		},
		Baseline: zeroBaseline,
		Key:      func(p *Part) Key { return Key{ID: p.Who.PID} },
		Blame:    func(p *Part) (group, what string) { return "input", "made input, and was waited for" },
	},
}

// ofInput says whether the victim waited for data: at a pipe or socket, or for a thread of its own
// that waits for another process there.
func (p *Part) ofInput() bool {
	switch p.Root {
	case events.ReasonPipe, events.ReasonSocket, events.ReasonPoll:
		return true
	case events.ReasonLock:
		return p.Waker.PID == p.Victim
	}
	return false
}
