package explain

import (
	"strings"
	"time"

	"ingero/internal/tick"
	"ingero/internal/wire"
)

func blindSpotsJSON(list []tick.BlindSpot) (out []wire.BlindSpot) {
	for i := range list {
		u := &list[i]
		x := wire.BlindSpot{Step: clean(u.Step), Without: clean(u.Without), Rules: u.Rules, Since: u.Since.UTC()}
		if !u.Until.IsZero() {
			x.Until = u.Until.UTC()
		}
		out = append(out, x)
	}
	return out
}

// blindSpotText lists the causes that cannot be reported now, and since when: "Causes not
// reported, or only in part: swap-in, tcp-loss (since 12:03:05 UTC without: disks)".
func blindSpotText(list []tick.BlindSpot, zone *time.Location) string {
	var parts []string
	for i := range list {
		if u := &list[i]; u.Until.IsZero() {
			parts = append(parts, clean(strings.Join(u.Rules, ", "))+" (since "+u.Since.In(zone).Format("15:04:05 MST")+" without: "+clean(u.Without)+")")
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "Causes not reported, or only in part: " + strings.Join(parts, "; ")
}
