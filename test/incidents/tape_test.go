//go:build measure

package incidents

import (
	"slices"
	"sync"
	"time"

	"ingero/internal/tick"
)

// tape is a sink that keeps every tick's chains, and hands all to a recording, until it
// is told that the run is over.
type tape struct {
	db    tick.Sink
	limit func(t *tick.Tick) bool // says of each tick whether it is the last one

	mu    sync.Mutex
	heard []heard
	steps map[uint32]int
	loops map[uint32]*tick.Loop
	over  chan struct{} // closed after the last one
}

// heard is what a tick said.
type heard struct {
	Time   time.Time
	Chains []tick.Chain
}

func newTape(db tick.Sink, limit func(*tick.Tick) bool) *tape {
	return &tape{db: db, limit: limit, over: make(chan struct{}), steps: map[uint32]int{}, loops: map[uint32]*tick.Loop{}}
}

func (p *tape) ended() bool {
	select {
	case <-p.over:
		return true
	default:
		return false
	}
}

// Batch implements [tick.Sink].
func (p *tape) Batch(b *tick.Batch) error {
	if p.ended() || p.db == nil {
		return nil
	}
	return p.db.Batch(b)
}

// Tick implements [tick.Sink].
func (p *tape) Tick(t *tick.Tick) error {
	if p.ended() {
		return nil
	}
	p.mu.Lock()
	p.heard = append(p.heard, heard{t.Time, cloned(t.Chains)})
	for i := range t.Breakdowns {
		p.steps[t.Breakdowns[i].PID] = t.Breakdowns[i].Steps
		p.loops[t.Breakdowns[i].PID] = t.Breakdowns[i].Loop
	}
	p.mu.Unlock()
	var err error
	last := p.limit(t)
	if p.db != nil {
		kept := *t
		kept.Final = t.Final || last // the recording is whole with it
		err = p.db.Tick(&kept)
	}
	if last {
		close(p.over)
	}
	return err
}

// Close implements [tick.Sink].
func (p *tape) Close() error {
	if !p.ended() {
		close(p.over)
	}
	if p.db == nil {
		return nil
	}
	return p.db.Close()
}

// said is all that was heard.
func (p *tape) said() []heard {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.heard
}

// cloned are chains that nobody changes any more.
func cloned(all []tick.Chain) []tick.Chain {
	all = slices.Clone(all)
	for i := range all {
		c := &all[i]
		c.Culprits, c.Timeline, c.NotIt = slices.Clone(c.Culprits), slices.Clone(c.Timeline), slices.Clone(c.NotIt)
	}
	return all
}
