//go:build measure || smoke

package incidents

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
)

// need is how much of the machine a run needs. Two runs are concurrent, each on a CPU of its own.
// Ingero traces both in their idle time.
type need int

const (
	calm  need = iota // its CPU is mostly idle
	full              // its CPU is busy: a calm run may run beside it
	alone             // both CPUs
	kinds             // number of kinds
)

// needs returns the need of the row with a seed. hogged means that the run's CPU is never idle,
// however the victim waits for the GPU.
func (r *row) needs(s *seed, hogged bool) need {
	switch p := r.plan(s); {
	case r.alone:
		return alone
	case hogged || r.full || !slices.Contains(p.victim.env, blocks[0]):
		return full
	}
	return calm
}

// queue schedules runs: calm runs beside full ones while there are both. Runs that need both CPUs
// come last, so that a CPU waits for the other only once. It is safe for concurrent use.
type queue struct {
	mu      sync.Mutex
	turn    sync.Cond
	coming  [kinds]int // announced runs, by need
	running []*place
}

// place is the CPU on which a run takes place.
type place struct {
	need   need
	cpu    int
	beside bool // another run was concurrent
}

func newQueue() *queue {
	q := &queue{}
	q.turn.L = &q.mu
	return q
}

// expect announces a run.
func (q *queue) expect(n need) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.coming[n]++
}

// take waits for the turn of an announced run, and gives it a place until the test and its subtests
// have ended. A full run gets both CPUs if no other run is active and no calm run is announced.
func (q *queue) take(t testing.TB, n need) *place {
	t.Helper()
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.may(n) {
		q.turn.Wait()
	}
	q.coming[n]--
	p := &place{need: n, cpu: 1}
	if n == full && len(q.running) == 0 && q.coming[calm] == 0 {
		p.need = alone
	}
	for _, other := range q.running {
		p.beside, other.beside = true, true
		p.cpu = 1 - other.cpu
	}
	q.running = append(q.running, p)
	t.Cleanup(func() { q.give(p) })
	return p
}

// may reports whether a run can begin now.
func (q *queue) may(n need) bool {
	if len(q.running) == 0 {
		return n != alone || q.coming[calm]+q.coming[full] == 0
	}
	beside := q.running[0].need
	switch {
	case len(q.running) > 1, beside == alone, n == alone:
		return false
	case beside == full:
		return n == calm
	}
	return n == full || q.coming[full] == 0
}

// shared reports whether another run was concurrent.
func (q *queue) shared(p *place) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return p.beside
}

// give returns a place to the queue.
func (q *queue) give(p *place) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.running = slices.DeleteFunc(q.running, func(other *place) bool { return other == p })
	q.turn.Broadcast()
}

// TestMain lifts the limit on parallel tests, so that all scenarios wait in the lab's own queue.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "1000"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(m.Run())
}
