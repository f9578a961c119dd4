package session

import (
	"os"
	"time"

	"ingero/internal/decode"
	"ingero/internal/probes"
	"ingero/internal/tick"
	"ingero/internal/unwind"
)

// Capabilities implements [Source] with the capabilities of the owners.
func (l *Live) Capabilities() Capabilities {
	seek := func(t *tick.Tick) { l.host.users.seek(t, l.host.procs) }
	if playing(l.raw) { // the tape has the users
		seek = nil
	}
	return Capabilities{
		AgentPID: uint32(os.Getpid()), Clock: kernelClock{l.clock.of}, Wake: l.rings.wake, Patience: l.patience, SetSlow: l.rings.slow,
		Proc: processFS(l.clock.of), Memory: newMemory(l.clock.of), Framer: l.resolve.frames, StackPolicy: policies[l.opts.Probes.Stacks],
		Faults: l.gpus.takeFaults, SeekSharers: seek, Shedder: l.shed, deck: l.raw,
	}
}

// kernelClock is the clock of calls as a session's clock.
type kernelClock struct{ of decode.Clock }

func (c kernelClock) Now() time.Time                       { return time.Unix(0, c.of.Now()) }
func (kernelClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// Clock returns the clock of all times of the session, and by how much Unix time is ahead of
// CLOCK_MONOTONIC by it, in ns.
func (l *Live) Clock() (now func() time.Time, offset int64) {
	return kernelClock{l.clock.of}.Now, l.clock.of.Offset
}

// policies maps stack policies to the words of the configuration.
var policies = map[probes.StackPolicy]string{probes.StacksNone: "false", probes.StacksSlow: "slow", probes.StacksAll: "all"}

// A newly mapped library is noticed by the next poll, and calls into it before that poll are
// missed. An extra wake-up costs more than a poll.
const (
	patience     = 16 * time.Millisecond
	patienceIdle = 90 * time.Millisecond // while no process is traced
)

// patience returns the longest pause before the next poll.
func (l *Live) patience() time.Duration {
	if l.targets.any() {
		return patience
	}
	return patienceIdle
}

// Unwinding returns figures on the unwind data that the kernel holds. It is safe for concurrent
// use.
func (l *Live) Unwinding() unwind.Figures { return l.resolve.unwind.Figures() }
