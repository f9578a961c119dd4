package session

import (
	"os"
	"time"

	"ingero/internal/probes"
	"ingero/internal/unwind"
)

// Capabilities implements [Source]: each owner has its own.
func (l *Live) Capabilities() Capabilities {
	return Capabilities{
		AgentPID: uint32(os.Getpid()), Wake: l.rings.wake, Patience: l.patience, SetSlow: l.rings.slow,
		Memory: newMemory(), Framer: l.resolve.frames, StackPolicy: policies[l.opts.Probes.Stacks],
		Faults: l.gpus.takeFaults, Sparing: l.shed, deck: l.raw,
	}
}

// policies are those of stacks, in the words of settings.
var policies = map[probes.StackPolicy]string{probes.StacksNone: "false", probes.StacksSlow: "slow", probes.StacksAll: "all"}

// A library that is mapped is noticed by the next poll: the first calls into it that are
// not seen are those until then. A wake-up for nothing costs more than a poll.
const (
	patience     = 16 * time.Millisecond
	patienceIdle = 90 * time.Millisecond // while no process is traced
)

// patience is the longest pause before the next poll.
func (l *Live) patience() time.Duration {
	if living, _ := l.targets.count(); living > 0 {
		return patience
	}
	return patienceIdle
}

// Unwinding returns what the kernel has to find the callers of functions with. It may be
// called from any goroutine.
func (l *Live) Unwinding() unwind.Figures { return l.resolve.unwind.Figures() }
