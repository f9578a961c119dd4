package session

import (
	"time"

	"ingero/internal/proc"
	"ingero/internal/symbols"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Source is the input of a session. It is called from one goroutine.
type Source interface {
	// Poll appends what has arrived since the last call, without waiting. more reports that the
	// batch was full, and input remains. At the end of the input Poll returns [io.EOF], possibly
	// with a last batch.
	Poll(b *tick.Batch) (more bool, err error)
	// Totals fills the current tick with the source's facts: the parts that the first row of the
	// table in stages.go writes. The tick then owns them.
	Totals(t *tick.Tick) error
	// Capabilities returns the source's other abilities. It is called once, before the first poll.
	Capabilities() Capabilities
	// Stop ends the input; what arrived before can still be polled. It is idempotent.
	Stop() error
	Close() error
}

// Capabilities has the abilities of a source other than delivering calls. The zero value has none.
// The functions are called from the session's goroutine.
type Capabilities struct {
	// AgentPID is the process that traces, or that traced: its threads are distinguished from
	// others that take a CPU. 0: unknown.
	AgentPID uint32

	// Wake delivers a value when a poll is urgent; nil: never. Patience returns the longest pause
	// before the next poll while there are few calls; nil: a default. It is called often.
	Wake     <-chan struct{}
	Patience func() time.Duration

	// SetSlow sets the duration from which on a call is slow: a source that thins records keeps
	// slow calls. nil: the source thins nothing.
	SetSlow func(op events.Op, d time.Duration) error

	// Due marks a recording: the recording defines its ticks, and its Totals fills Host, Self,
	// Overhead and the host sums. Due reports whether a tick is due, once Poll has delivered all
	// earlier input. It fills the fields that identify the tick. nil: the session makes the ticks.
	Due func(t *tick.Tick) bool

	// Clock is the clock of the source's times; nil: the session's own.
	Clock Clock

	// Proc is the proc file system of the source's processes, with the offset of the source's times.
	Proc proc.FS

	// Memory reads the memory of the source's processes; nil: not possible.
	Memory symbols.Reader

	// Framer names raw stacks; nil: stacks arrive with names. StackPolicy is the setting of which
	// calls have stacks: "slow", "all", or "false". Empty: unknown.
	Framer      Framer
	StackPolicy string

	// Faults appends the GPU faults since the last call; nil: the source has none, or has them in
	// Totals.
	Faults func(dst []tick.Xid) []tick.Xid

	// SeekSharers looks for untraced processes on GPUs that became slower, by the chains of a tick. The host sums of a
	// later tick have them. nil: not possible.
	SeekSharers func(t *tick.Tick)

	// Shedder sheds features; nil: there is nothing to shed.
	Shedder Sheddable

	deck tapeIO // the raw tape that is recorded or played; nil: none
}

// Recording is a source that replays a recording: package store's log.
type Recording interface {
	Poll(b *tick.Batch) (more bool, err error)
	Totals(t *tick.Tick) error
	Due(t *tick.Tick) bool
	AgentPID() uint32
	Stop() error
	Close() error
}

// FromRecording returns a recording as a source.
func FromRecording(r Recording) Source { return recorded{r} }

type recorded struct{ Recording }

// Capabilities implements [Source].
func (r recorded) Capabilities() Capabilities {
	return Capabilities{AgentPID: r.AgentPID(), Due: r.Due}
}
