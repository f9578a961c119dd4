package causal

import "ingero/internal/govern"

// aCall is the shortest answer time of a tool, ns.
const aCall = 20e6

var toolCall = Rule{
	Name: "tool-call", Sees: govern.HostEvents, Needs: NeedWaits | NeedHost, Problems: []string{"5", "9"},
	Doc: "The job asked another program or a service for something between its steps, and the GPU had nothing to do until the answer came.",
	Find: takesOver([]string{peerSlow.Name}, func(w *Window, x *Finding) bool {
		return x.Slow > 0 && 2*x.lostTo(isRank) < x.Lost && x.Lost/int64(x.Slow) >= aCall && w.shareWith(x.PID, peerSlow.Name) < 0.3
	}),
}
