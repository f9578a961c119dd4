package session

import (
	"log/slog"
	"testing"
	"time"

	"ingero/internal/decode"
	"ingero/internal/probes"
	"ingero/internal/proc"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// attached returns the state of a session with one process and one attached library.
func attached(p *proc.Process, m *proc.Library) (*targets, *libraries, *library) {
	report := &reporter{log: slog.New(slog.DiscardHandler), notify: func(Notice) {}}
	of := newTargets(decode.Clock{}, report, &LiveOptions{})
	libs := newLibraries(decode.Clock{}, nil, nil, report, &LiveOptions{})
	libs.mapped = of.mapped
	lib := &library{users: map[uint32]time.Time{}, attached: &probes.Attached{}}
	libs.known[libraryKey{m.Key, m.Lib}], libs.order = lib, []*library{lib}
	of.admit(p, false, time.Unix(1000, 0))
	return of, libs, lib
}

// A process that ends while its library is being attached does not keep the probes forever.
func TestLibraryOfEndedProcess(t *testing.T) {
	m := proc.Library{Lib: events.LibCuda}
	p := proc.Process{PID: 7}
	for _, ends := range []bool{false, true} {
		of, libs, lib := attached(&p, &m)
		if ends {
			of.ended(p.PID, time.Unix(1001, 0))
		}
		if err := libs.attach(&p, m, time.Time{}); err != nil {
			t.Fatal(err)
		}
		if _, uses := lib.users[p.PID]; uses == ends {
			t.Errorf("ended: %t, users: %v", ends, lib.users)
		}
	}
}

// An exec keeps the libraries that the new program is already known to map, and removes the old
// program's.
func TestLibraryOfNewProgram(t *testing.T) {
	m := proc.Library{Lib: events.LibCuda}
	p := proc.Process{PID: 7}
	for _, heard := range []string{"before", "after"} { // the library was attached, relative to the exec
		t.Run(heard, func(t *testing.T) {
			of, libs, lib := attached(&p, &m)
			exec := libs.now() // the clock of events may be years behind the wall clock
			if heard == "before" {
				exec = exec.Add(time.Hour)
			}
			if err := libs.attach(&p, m, time.Time{}); err != nil {
				t.Fatal(err)
			}
			libs.execed(p.PID, exec)
			of.execed(&tick.ProcEvent{PID: p.PID, Time: exec.UnixNano()})
			_, uses := lib.users[p.PID]
			if want := heard == "after"; uses != want || of.procs[p.PID].Attached.IsZero() == want {
				t.Errorf("uses it: %t, attached %v", uses, of.procs[p.PID].Attached)
			}
		})
	}
}
