package session

import (
	"testing"

	"ingero/internal/proc"
)

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
