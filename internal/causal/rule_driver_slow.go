package causal

import (
	"ingero/internal/govern"
	"ingero/pkg/events"
)

var driverSlow = Rule{
	Name: "driver-slow", Sees: govern.LaunchTimes | govern.QuickTimes, Dims: govern.EachLaunch | govern.EachQuick, Needs: NeedWaits | NeedCalls, Share: 0.01, Slow: 3, Problems: []string{"12"},
	Doc: "The GPU driver blocked a call in the kernel.",
	Claims: &Claims{
		Part: func(p *Part) bool {
			return p.State == events.WaitBlocked && p.Op != 0 && p.Via.TID == 0 &&
				(p.Reason == events.ReasonGPU || p.Reason == events.ReasonDevice)
		},
		Key: func(p *Part) Key { return Key{Op: p.Op} },
		Blame: func(p *Part) (group, what string) {
			return p.Op.String(), "GPU driver, in " + p.Op.String()
		},
		Word: "driver",
	},
}
