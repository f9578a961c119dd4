package session

import (
	"testing"
	"time"

	"ingero/internal/proc"
	"ingero/internal/tick"
)

// Data that was read before a process's end does not revive it.
func TestOver(t *testing.T) {
	began := time.Unix(1000, 0)
	ended := began.Add(time.Second)
	end := func(start uint64) *process { return &process{start: start, Process: tick.Process{Ended: ended}} }
	read := func(start uint64, at time.Time) proc.Process {
		return proc.Process{PID: 7, StartTicks: start, Started: at}
	}
	for _, tt := range []struct {
		name  string
		known *process
		p     proc.Process
		want  bool
	}{
		{name: "not known", p: read(5, began)},
		{name: "lives", known: &process{start: 5}, p: read(5, began)},
		{name: "ended", known: end(5), p: read(5, began), want: true},
		{name: "another with its number", known: end(5), p: read(500, ended.Add(time.Second))},
		{name: "another, and the clock was set back", known: end(5), p: read(500, began.Add(-time.Hour))},
		{name: "the clock was set forward", known: end(5), p: read(5, ended.Add(time.Hour)), want: true},
		{name: "ended before it was read of", known: end(0), p: read(5, began), want: true},
		{name: "another, of one that was never read of", known: end(0), p: read(500, ended.Add(time.Second))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := &targets{procs: map[uint32]*process{}}
			if tt.known != nil {
				x.procs[7] = tt.known
			}
			if got := x.hasEnded(&tt.p); got != tt.want {
				t.Errorf("over = %t, want %t", got, tt.want)
			}
		})
	}
}

func TestHarm(t *testing.T) {
	for _, tt := range []struct {
		name   string
		p      proc.Process
		kernel bool // kills at a return under a filter
		want   bool
	}{
		{name: "nothing special", kernel: true},
		{name: "a filter, on a kernel that minds", p: proc.Process{Seccomp: 2}, kernel: true, want: true},
		{name: "a filter, on one that does not", p: proc.Process{Seccomp: 2}},
		{name: "strict mode has no filter", p: proc.Process{Seccomp: 1}, kernel: true},
		{name: "a shadow stack", p: proc.Process{ShadowStack: true}, want: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if why := tt.p.ReturnHarm(tt.kernel); (why != "") != tt.want {
				t.Errorf("harm = %q, want a reason: %v", why, tt.want)
			}
		})
	}
}
