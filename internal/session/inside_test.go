package session

import (
	"log/slog"
	"testing"
	"time"

	"ingero/internal/proc"
	"ingero/internal/testkit"
)

// A process that has ended since it was queued is not searched, also if another one has its number.
func TestEndedProcessIsNotSearchedForLinkedLibraries(t *testing.T) {
	root := testkit.Tree(t, map[string]string{"7/stat": "7 (x) R 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0", "7/maps": ""})
	for start, want := range map[uint64]int{5: 1, 4: 0} {
		searched := 0
		x := newInside(proc.Names{}, &proc.Finder{FS: proc.FS{Root: root}}, &reporter{log: slog.New(slog.DiscardHandler)},
			func(*proc.Process, []proc.Library, time.Time) { searched++ })
		if err := x.into(waitingProcess{Process: &proc.Process{PID: 7, StartTicks: start}}); searched != want {
			t.Errorf("process that started at %d: searched %d times (%v), want %d", start, searched, err, want)
		}
	}
}
