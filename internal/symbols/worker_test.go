package symbols

import (
	"sync/atomic"
	"testing"

	"ingero/internal/testkit"
)

// hung is a Reader whose calls do not return.
type hung struct{ called, let chan struct{} }

func (h hung) Strings(uint32, int64, []uint64) ([]string, error) {
	close(h.called)
	<-h.let
	return nil, nil
}

func (h hung) Symbols(pid uint32, seen int64, at []uint64) ([]string, error) {
	return h.Strings(pid, seen, at)
}

// A process whose memory cannot be read does not keep a table from its end.
func TestCloseWhileAReadHangs(t *testing.T) {
	testkit.LeakCheck(t)
	h := hung{make(chan struct{}), make(chan struct{})}
	w := startWorker(h)
	w.enqueue([]request{{p: &process{}}})
	<-h.called
	w.last = 1 // ns
	var ended atomic.Bool
	go func() {
		w.close()
		ended.Store(true)
	}()
	testkit.Eventually(t, "the end", ended.Load)
	close(h.let)
}
