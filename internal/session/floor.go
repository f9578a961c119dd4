package session

import (
	"fmt"
	"slices"
	"time"

	"ingero/internal/govern"
	"ingero/internal/tick"
)

// sheds reports whether a step on a part is taken.
func (b *budget) sheds(p govern.Part) bool {
	return slices.ContainsFunc(b.Taken(), func(step int) bool { return govern.Steps[step].Part == p })
}

// setFloor sets the least overhead that probes need, if the budget is below that or every step has
// been shed.
func (b *budget) setFloor(o *tick.Overhead) {
	if b.sheds(govern.Hot) && b.floor.Share > b.Share || b.Exhausted() {
		o.Floor = b.floor
	}
}

// reportFloor adds the report of the first tick with a floor. The report stays, before those that came
// later: a recording keeps reports in the order in which they came.
func (b *budget) reportFloor(t *tick.Tick) {
	if b.below == (tick.Report{}) && t.Overhead.Floor != (tick.Floor{}) {
		b.below, b.before = tick.Report{Kind: "overhead-floor", Object: "probes", Why: floorText(t.Time, &t.Overhead)}, len(t.Reports)
	}
	if b.below != (tick.Report{}) {
		t.Reports = slices.Insert(t.Reports, min(b.before, len(t.Reports)), b.below)
	}
}

// floorText describes the cost of tracing, its budget, the minimum cost of the probes, and the remedy.
func floorText(at time.Time, o *tick.Overhead) string {
	then := "no feature is left to shed"
	if slices.Contains(o.Shed, "hot-off") {
		then = "so the most expensive calls have no probe"
	}
	return fmt.Sprintf("at %s tracing cost %.1f %% of the time of the traced processes; --max-overhead allows %.3g %%. Probes need at least %.1f %% here: %d ns for each of %.0f calls a second; %s. "+
		"To keep all counts and times, set a higher --max-overhead, or 0; --sampling-rate makes no probe cheaper",
		at.Format("15:04:05 MST"), 100*o.Share, 100*o.Budget, 100*o.Floor.Share, o.Floor.Probe.Nanoseconds(), o.Floor.Rate, then)
}
