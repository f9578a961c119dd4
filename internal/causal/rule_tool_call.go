package causal

import (
	"fmt"

	"ingero/internal/govern"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// aCall is the shortest answer time of a tool, ns.
const aCall = 20e6

// toolCall takes over waits for a peer's reply, and claims waits for the end of a program that the job
// started.
var toolCall = Rule{
	Name: "tool-call", Sees: govern.HostEvents, Needs: NeedWaits | NeedHost, Share: 0.01, Slow: 1, Problems: []string{"5", "9"},
	Doc: "Between its steps, the job waited for a reply from another program or a service, or for the end of a program that it started, and the GPU was idle.",
	Claims: &Claims{
		Part: func(p *Part) bool { return p.State == events.WaitBlocked && p.Root == events.ReasonChild },
		Key:  func(*Part) Key { return Key{Reason: events.ReasonChild} }, // each run has a process of its own
		Blame: func(p *Part) (group, what string) {
			if p.Via.TID != 0 {
				return childGroup, fmt.Sprintf(tick.ChildEnd+"; it was blocked itself: %s", p.Reason)
			}
			return childGroup, tick.ChildEnd
		},
		Started: true,
	},
	Find: joinFinds((*Window).Claimed, takeOver([]string{peerSlow.Name}, func(w *Window, x *Finding) bool {
		return !acts(x.Group) && x.Slow > 0 && 2*x.lostTo(isRank) < x.Lost && x.Lost/int64(x.Slow) >= aCall && w.shareWith(x.PID, peerSlow.Name) < 0.3
	})),
}

const childGroup = "child"
