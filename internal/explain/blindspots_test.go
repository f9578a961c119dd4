package explain

import (
	"strings"
	"testing"
	"time"

	"ingero/internal/tick"
)

// Causes that cannot be reported are listed with the start time, while this lasts.
func TestBlindSpots(t *testing.T) {
	at := time.Date(2026, 1, 2, 12, 3, 5, 0, time.UTC)
	list := []tick.BlindSpot{
		{Step: "records-thin", Without: "single launches", Rules: []string{"graph-warmup"}, Since: at, Until: at.Add(time.Minute)},
		{Step: "host-off", Without: "disks", Rules: []string{"swap-in", "tcp-loss"}, Since: at},
	}
	if got, want := blindSpotText(list, time.UTC), "Causes not reported, or only in part: swap-in, tcp-loss (since 12:03:05 UTC without: disks)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := blindSpotText(list[:1], time.UTC); got != "" {
		t.Errorf("%q is reported after its end", got)
	}
	b, err := TickJSON(&tick.Tick{Untold: list})
	if want := `"untold":[{"step":"records-thin","without":"single launches","rules":["graph-warmup"],"since":"2026-01-02T12:03:05Z","until":"2026-01-02T12:04:05Z"},{"step":"host-off"`; err != nil || !strings.Contains(string(b), want) {
		t.Errorf("%s, %v", b, err)
	}
}
