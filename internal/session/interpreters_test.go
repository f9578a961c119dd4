package session

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"ingero/internal/decode"
	"ingero/internal/proc"
	"ingero/internal/python"
)

// A process stays at its gate until it has been searched, with any result. One without a search, or
// with its parent's interpreter, does not wait.
func TestInterpretersReady(t *testing.T) {
	let := make(chan struct{})
	var looked atomic.Bool
	x := newInterpreters(&reporter{}, decode.Clock{})
	x.forget = func(uint32) {}
	x.find = func(uint32) (*python.Process, error) {
		<-let
		looked.Store(true)
		return nil, proc.ErrExited
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); x.run(ctx) }()
	x.look(7)
	x.ready(8, time.Hour)
	x.mu.Lock()
	x.procs[9] = &search{loaded: true}
	x.mu.Unlock()
	if !x.forked(9, 10, 1) || x.forked(8, 11, 1) {
		t.Error("a child has its parent's interpreter where that has one")
	}
	x.ready(10, time.Hour)
	x.ready(7, 0)
	go close(let)
	x.ready(7, time.Hour)
	if !looked.Load() {
		t.Error("a process went on before it was looked into")
	}
	cancel()
	<-done
}

// noKernel has no interpreters.
type noKernel struct{}

func (noKernel) Python(uint32, python.Facts) (uint32, error) { return 1, nil }
func (noKernel) ForgetPython(uint32) error                   { return nil }

// A child has its parent's interpreter if the kernel had it at the fork, and is searched otherwise.
func TestInterpreterOfAChild(t *testing.T) {
	const parent, child = 7, 8
	had := &search{loaded: true, since: 100}
	for name, tt := range map[string]struct {
		parent, child *search
		user          bool // stacks are walked from user space
		at            int64
		known         bool
		searched      bool
	}{
		"after the kernel had it":        {parent: had, at: 101, known: true},
		"before the kernel had it":       {parent: had, at: 99, known: true, searched: true},
		"walked from user space":         {parent: had, user: true, at: 99, known: true},
		"while its parent is searched":   {parent: &search{due: time.Unix(1, 0)}, at: 101, known: true, searched: true},
		"of a parent without Python":     {parent: &search{}, at: 101},
		"of an unknown parent":           {at: 101},
		"it has been searched itself":    {parent: had, child: &search{since: 150}, at: 101, known: true},
		"another process had its number": {parent: had, child: &search{loaded: true, since: 50}, at: 99, known: true, searched: true},
	} {
		t.Run(name, func(t *testing.T) {
			x := newInterpreters(&reporter{}, decode.Clock{})
			if !tt.user {
				x.kernel = noKernel{}
			}
			searched := false
			x.find = func(pid uint32) (*python.Process, error) {
				searched = searched || pid == child
				return nil, proc.ErrExited
			}
			for pid, s := range map[uint32]*search{parent: tt.parent, child: tt.child} {
				if s != nil {
					x.procs[pid] = s
				}
			}
			if known := x.forked(parent, child, tt.at); known != tt.known {
				t.Errorf("known is %v, want %v", known, tt.known)
			}
			if x.pass(time.Now()); searched != tt.searched {
				t.Errorf("searched is %v, want %v", searched, tt.searched)
			}
		})
	}
}
