package tapes

import (
	"slices"
	"sync"
	"time"

	"ingero/internal/tick"
)

// Recorder is a sink that keeps every tick's chains, and passes everything to a recording, until
// the run is over.
type Recorder struct {
	db    tick.Sink
	limit func(t *tick.Tick) bool // reports whether a tick is the last one

	mu    sync.Mutex
	heard []Heard
	Steps map[uint32]int
	Loops map[uint32]*tick.Loop
	Shed  [][]string    // steps taken at each tick
	over  chan struct{} // closed after the last tick
}

// Heard is a tick's report.
type Heard struct {
	Time   time.Time
	Chains []tick.Chain
}

// NewRecorder returns a recorder that passes everything to db, unless db is nil, until limit
// reports that a tick is the last.
func NewRecorder(db tick.Sink, limit func(*tick.Tick) bool) *Recorder {
	return &Recorder{db: db, limit: limit, over: make(chan struct{}), Steps: map[uint32]int{}, Loops: map[uint32]*tick.Loop{}}
}

func (p *Recorder) ended() bool {
	select {
	case <-p.over:
		return true
	default:
		return false
	}
}

// Batch implements [tick.Sink].
func (p *Recorder) Batch(b *tick.Batch) error {
	if p.ended() || p.db == nil {
		return nil
	}
	return p.db.Batch(b)
}

// Tick implements [tick.Sink].
func (p *Recorder) Tick(t *tick.Tick) error {
	if p.ended() {
		return nil
	}
	p.mu.Lock()
	p.heard = append(p.heard, Heard{t.Time, cloned(t.Chains)})
	p.Shed = append(p.Shed, slices.Clone(t.Overhead.Shed))
	for i := range t.Breakdowns {
		p.Steps[t.Breakdowns[i].PID] = t.Breakdowns[i].Steps
		p.Loops[t.Breakdowns[i].PID] = t.Breakdowns[i].Loop
	}
	p.mu.Unlock()
	var err error
	last := p.limit(t)
	if p.db != nil {
		kept := *t
		kept.Final = t.Final || last // Final completes the recording
		err = p.db.Tick(&kept)
	}
	if last {
		close(p.over)
	}
	return err
}

// Close implements [tick.Sink].
func (p *Recorder) Close() error {
	if !p.ended() {
		close(p.over)
	}
	if p.db == nil {
		return nil
	}
	return p.db.Close()
}

// Heard returns the reports of all ticks so far.
func (p *Recorder) Heard() []Heard {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.heard
}

// Over returns a channel that is closed after the last tick.
func (p *Recorder) Over() <-chan struct{} { return p.over }

// cloned returns copies of chains, which callers cannot change.
func cloned(all []tick.Chain) []tick.Chain {
	all = slices.Clone(all)
	for i := range all {
		c := &all[i]
		c.Culprits, c.Timeline, c.NotIt = slices.Clone(c.Culprits), slices.Clone(c.Timeline), slices.Clone(c.NotIt)
	}
	return all
}
