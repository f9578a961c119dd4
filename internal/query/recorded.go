package query

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ingero/internal/tick"
)

// Missing is an error about something that was not recorded, with what was.
type Missing interface {
	error
	Do() string // remedy
}

// NotRecordedError means that the requested processes are in none of the recordings of that time.
type NotRecordedError struct {
	PIDs  []uint32
	There []tick.Process // recorded processes, by pid
}

// Error names the missing processes.
func (e *NotRecordedError) Error() string {
	if len(e.PIDs) == 1 {
		return fmt.Sprintf("process %d is not in any recording of that time", e.PIDs[0])
	}
	var names []string
	for _, pid := range e.PIDs {
		names = append(names, strconv.FormatUint(uint64(pid), 10))
	}
	return "processes " + strings.Join(names, ", ") + " are not in any recording of that time"
}

// Do names a few recorded processes, first one that has the requested pid in its container.
func (e *NotRecordedError) Do() string {
	const most = 3
	if len(e.There) == 0 {
		return "that time has no recorded processes"
	}
	for i := range e.There {
		if p := &e.There[i]; p.NSPID != 0 && slices.Contains(e.PIDs, p.NSPID) {
			return fmt.Sprintf("process %d in a container has pid %s on this machine", p.NSPID, called(p))
		}
	}
	var names []string
	for i := range e.There[:min(len(e.There), most)] {
		names = append(names, called(&e.There[i]))
	}
	text := "recorded processes: " + strings.Join(names, ", ")
	if len(e.There) == 1 {
		text = "recorded process: " + names[0]
	}
	if more := len(e.There) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func called(p *tick.Process) string {
	if p.Comm == "" {
		return strconv.FormatUint(uint64(p.PID), 10)
	}
	return fmt.Sprintf("%d (%s)", p.PID, p.Comm)
}

// CheckChosen is [Reader.CheckRecorded] for a filter's sessions and processes.
func (r *Reader) CheckChosen(ctx context.Context, f Filter) error {
	if len(f.PIDs) == 0 {
		return nil
	}
	sessions, err := r.Chosen(ctx, f)
	if err != nil {
		return err
	}
	return r.CheckRecorded(ctx, sessions, f.PIDs)
}

// CheckRecorded returns a [NotRecordedError] if none of the processes is in one of the sessions. It
// returns nil if pids is empty.
func (r *Reader) CheckRecorded(ctx context.Context, sessions []Session, pids []uint32) error {
	if len(pids) == 0 {
		return nil
	}
	var there []tick.Process
	for i := range sessions {
		all, err := r.processes(ctx, sessions[i].id)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(all, func(p tick.Process) bool { return slices.Contains(pids, p.PID) }) {
			return nil
		}
		there = append(there, all...)
	}
	slices.SortFunc(there, func(a, b tick.Process) int { return int(a.PID) - int(b.PID) })
	there = slices.CompactFunc(there, func(a, b tick.Process) bool { return a.PID == b.PID })
	return &NotRecordedError{PIDs: pids, There: there}
}
