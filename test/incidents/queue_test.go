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

// need is how much of the machine a run needs. Two runs are made at a time, each on a CPU
// of its own; ingero, which looks at both, has what they leave idle.
type need int

const (
	calm  need = iota // its CPU is idle for most of the time
	full              // its CPU is not: there may be a calm one beside it
	alone             // both CPUs
	kinds             // the number of them
)

// needs is what a run of the row needs with a seed; hogged: its CPU is never idle, however
// the victim waits for the GPU.
func (r *row) needs(s *seed, hogged bool) need {
	switch p := r.plan(s); {
	case r.alone:
		return alone
	case hogged || r.full || !slices.Contains(p.victim.env, blocks[0]):
		return full
	}
	return calm
}

// queue says whose turn it is: calm beside full ones as long as there are both, those that
// need both CPUs last, so that no CPU waits for another more than once. It may be used by
// several goroutines.
type queue struct {
	mu      sync.Mutex
	turn    sync.Cond
	coming  [kinds]int // runs that have not begun
	running []*place
}

// place is a run's.
type place struct {
	need   need
	cpu    int
	beside bool // another run was there at the same time
}

func newQueue() *queue {
	q := &queue{}
	q.turn.L = &q.mu
	return q
}

// expect says that a run will come.
func (q *queue) expect(n need) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.coming[n]++
}

// take waits for the turn of a run that was expected, and gives it a place, until the test
// and its children have ended. A full one beside which no calm one will come is given both
// CPUs.
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

// may tells whether a run can begin now.
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

// shared tells whether another run was there at the same time.
func (q *queue) shared(p *place) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return p.beside
}

// give gives a place back.
func (q *queue) give(p *place) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.running = slices.DeleteFunc(q.running, func(other *place) bool { return other == p })
	q.turn.Broadcast()
}

// TestMain has all scenarios wait in the lab's own queue, and not for the test binary.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "1000"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(m.Run())
}
