package session

import (
	"testing"
	"time"

	"ingero/internal/proc"
	"ingero/internal/tick"
)

// What was read of a process before its end must not make it live again.
func TestOver(t *testing.T) {
	began := time.Unix(1000, 0)
	ended := began.Add(time.Second)
	for _, tt := range []struct {
		name  string
		known *process
		p     proc.Process
		want  bool
	}{
		{name: "not known", p: proc.Process{PID: 7, Started: began}},
		{name: "lives", known: &process{}, p: proc.Process{PID: 7, Started: began}},
		{name: "ended", known: &process{Process: tick.Process{Ended: ended}}, p: proc.Process{PID: 7, Started: began}, want: true},
		{name: "another with its number", known: &process{Process: tick.Process{Ended: ended}}, p: proc.Process{PID: 7, Started: ended.Add(time.Second)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := &Live{procs: map[uint32]*process{}}
			if tt.known != nil {
				l.procs[7] = tt.known
			}
			if got := l.over(&tt.p); got != tt.want {
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
			l := &Live{seccompHarm: tt.kernel}
			if why := l.harm(&tt.p); (why != "") != tt.want {
				t.Errorf("harm = %q, want a reason: %v", why, tt.want)
			}
		})
	}
}
