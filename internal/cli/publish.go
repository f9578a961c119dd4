package cli

import (
	"log/slog"
	"time"

	"ingero/internal/explain"
	"ingero/internal/lock"
	"ingero/internal/tick"
)

// publisher is the sink that tells `ingero status` how the trace is doing.
type publisher struct {
	lock     *lock.Lock
	log      *slog.Logger
	database func() (bytes int64, problem error)
	losses   uint64 // as of the last tick
	lastLoss time.Time
	failed   bool // so that it is said once
}

// Batch implements [tick.Sink].
func (p *publisher) Batch(*tick.Batch) error { return nil }

// Tick implements [tick.Sink]. That a state could not be written is not worth
// ending the trace for.
func (p *publisher) Tick(t *tick.Tick) error {
	s := lock.State{
		Updated: t.Time, Libraries: len(t.Libraries), Records: t.Records,
		CPU: t.Self.CPU, RSS: t.Self.RSS, Drops: map[string]uint64{},
	}
	for i := range t.Processes {
		if x := &t.Processes[i]; x.Ended.IsZero() {
			s.Processes = append(s.Processes, lock.Process{PID: x.PID, Comm: x.Comm})
		}
	}
	for i := range t.Libraries {
		s.Probes += t.Libraries[i].Probes
	}
	for i := range t.Ops {
		s.Calls += t.Ops[i].Sum.Calls
	}
	for _, d := range t.Drops {
		if d.Count > 0 {
			s.Drops[d.Reason] = d.Count
		}
	}
	if losses := explain.Lost(t.Drops); losses > p.losses {
		p.losses, p.lastLoss = losses, t.Time
	}
	s.LastLoss = p.lastLoss
	if p.database != nil {
		var err error
		if s.DBBytes, err = p.database(); err != nil {
			s.Problems = append(s.Problems, "not recording: "+oneLine(inWords(err).What))
		}
	}
	if err := p.lock.Publish(s); err != nil && !p.failed {
		p.failed = true
		p.log.Warn("status will be out of date", "error", err)
	}
	return nil
}

// Close implements [tick.Sink].
func (p *publisher) Close() error { return nil }
