package causal

import "ingero/internal/govern"

// aCall is the shortest answer time of a tool, ns.
const aCall = 20e6

var toolCall = Rule{
	Name: "tool-call", Sees: govern.HostEvents, Needs: NeedWaits | NeedHost, Problems: []string{"5", "9"},
	Doc: "Between its steps, the job waited for a reply from another program or a service, and the GPU was idle.",
	Find: takeOver([]string{peerSlow.Name}, func(w *Window, x *Finding) bool {
		return x.Slow > 0 && 2*x.lostTo(isRank) < x.Lost && x.Lost/int64(x.Slow) >= aCall && w.shareWith(x.PID, peerSlow.Name) < 0.3
	}),
}
