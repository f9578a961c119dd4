package session

import (
	"log/slog"
	"testing"
	"time"

	"ingero/internal/probes"
	"ingero/internal/proc"
	"ingero/pkg/events"
)

// A process that ends while its library is attached to does not keep the probes for good.
func TestLibraryOfEndedProcess(t *testing.T) {
	m := proc.Library{Lib: events.LibCuda}
	p := proc.Process{PID: 7}
	for _, ends := range []bool{false, true} {
		report := &reporter{log: slog.New(slog.DiscardHandler), notify: func(Notice) {}}
		of := newTargets(report, &LiveOptions{})
		libs := newLibraries(nil, nil, report, &LiveOptions{})
		libs.mapped = of.mapped
		lib := &library{users: map[uint32]bool{}, attached: &probes.Attached{}}
		libs.known[libraryKey{m.Key, m.Lib}], libs.order = lib, []*library{lib}
		of.admit(&p, false, time.Unix(1000, 0))
		if ends {
			of.ended(p.PID, time.Unix(1001, 0))
		}
		if err := libs.attach(&p, m, time.Time{}); err != nil {
			t.Fatal(err)
		}
		if lib.users[p.PID] == ends {
			t.Errorf("ended: %t, users: %v", ends, lib.users)
		}
	}
}
