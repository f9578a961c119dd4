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
	if !x.forked(9, 10) || x.forked(7, 11) {
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
