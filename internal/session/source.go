package session

import (
	"time"

	"ingero/internal/symbols"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Source is where a session's input comes from. One goroutine calls it.
type Source interface {
	// Poll appends what has arrived since the last call and does not wait for
	// more. more says that it stopped for want of room, not of input. At the end
	// of all input it returns [io.EOF], possibly with a last batch.
	Poll(b *tick.Batch) (more bool, err error)
	// Totals fills what the source knows of a tick, as of now: what the first row of the table
	// in stages.go gives. What it fills is the tick's from then on.
	Totals(t *tick.Tick) error
	// Capabilities returns what the source can do beside. It is asked once, before the first poll.
	Capabilities() Capabilities
	// Stop ends the input; what had arrived until then can still be polled. It
	// is idempotent.
	Stop() error
	Close() error
}

// Capabilities are what a source can do beside delivering calls. The zero value is a source
// that can do nothing else. The functions are called from the session's goroutine.
type Capabilities struct {
	// AgentPID is the process that traces, or traced: its threads are told apart from others
	// that take a CPU. 0: not known.
	AgentPID uint32

	// Wake delivers a value when a poll is urgent; nil: never. Patience is the longest pause
	// before the next poll while hardly any calls come; nil: a default. It is asked often.
	Wake     <-chan struct{}
	Patience func() time.Duration

	// SetSlow tells the duration from which on a call is slow: a source that thins records
	// keeps those of slow calls. nil: the source thins nothing.
	SetSlow func(op events.Op, d time.Duration) error

	// Due makes the source a recording: its ticks are when they were, and its Totals have
	// Host, Self, Overhead and the sums of the host. Due tells whether a tick is due, once Poll
	// has delivered all that came before it, and fills in which one that is: all but what
	// Totals fills. nil: the session decides when to tick.
	Due func(t *tick.Tick) bool

	// Memory reads the memory of the source's processes; nil: nobody can.
	Memory symbols.Reader

	// Framer names raw stacks; nil: stacks come with names. StackPolicy says which calls have
	// their stack taken, in words: "slow", "all", or "false". Empty: not known.
	Framer      Framer
	StackPolicy string

	// Faults appends the faults of GPUs that have come since the last call; nil: the source
	// learns of none, or has them in its Totals.
	Faults func(dst []tick.Xid) []tick.Xid

	// Sparing can do without some of what it tells; nil: there is nothing to leave out.
	Sparing Sparing

	deck deck // the raw tape that is recorded or played; nil: there is none
}

// Recording is a source that plays what was: package store's replay of a log.
type Recording interface {
	Poll(b *tick.Batch) (more bool, err error)
	Totals(t *tick.Tick) error
	Due(t *tick.Tick) bool
	AgentPID() uint32
	Stop() error
	Close() error
}

// FromRecording returns the source that a recording is.
func FromRecording(r Recording) Source { return recorded{r} }

type recorded struct{ Recording }

// Capabilities implements [Source].
func (r recorded) Capabilities() Capabilities {
	return Capabilities{AgentPID: r.AgentPID(), Due: r.Due}
}
