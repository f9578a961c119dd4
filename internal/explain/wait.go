package explain

import (
	"strconv"
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// AppendWaitJSON appends a wait as one line of JSON, without the newline: a [wire.WaitLine].
func AppendWaitJSON(b []byte, w *events.Wait, comm string) []byte {
	b = append(b, `{"type":"wait","timestamp":"`...)
	b = time.Unix(0, w.Start).UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","pid":`...)
	b = strconv.AppendUint(b, uint64(w.PID), 10)
	b = appendUint(b, "tid", uint64(w.TID))
	if comm != "" {
		b = appendString(appendKey(b, "comm"), comm)
	}
	b = appendText(b, "state", w.State.String())
	b = appendInt(b, "duration_ns", w.Duration)
	if w.Op != 0 {
		b = appendText(b, "op", w.Op.String())
	}
	b = appendUint(b, "cpu", uint64(w.CPU))
	if w.Hop != 0 {
		b = appendUint(b, "hop", uint64(w.Hop))
	}
	if w.State == events.WaitBlocked {
		b = appendText(b, "reason", w.Reason.String())
		if w.Syscall != 0 {
			b = appendText(b, "syscall", w.Syscall.String())
			b = appendUint(b, "arg", w.Arg)
		}
		if w.File != events.FileNone {
			b = appendText(b, "file", w.File.String())
		}
		if w.Dev != 0 {
			b = appendText(b, "dev", device(w.Dev))
		}
	}
	if w.State == events.WaitRunnable && w.Taken > 0 {
		b = appendInt(b, "taken_ns", w.Taken)
	}
	if w.State == events.WaitRunnable && w.Reason != 0 {
		b = appendText(b, "reason", w.Reason.String())
	}
	b = appendThread(b, &w.Who)
	for _, f := range [...]struct {
		flag events.WaitFlags
		text string
	}{
		{events.WaitIO, `,"io":true`}, {events.WaitByIRQ, `,"by_irq":true`}, {events.WaitIdle, `,"idle":true`},
		{events.WaitOthers, `,"others":true`}, {events.WaitMoved, `,"moved":true`}, {events.WaitPrevious, `,"previous":true`},
	} {
		if w.Flags&f.flag != 0 {
			b = append(b, f.text...)
		}
	}
	return append(b, '}')
}

func appendThread(b []byte, t *events.Thread) []byte {
	if t.TID == 0 {
		return b
	}
	b = append(b, `,"who":{"comm":`...)
	b = appendString(b, t.Name.String())
	b = appendUint(b, "pid", uint64(t.PID))
	b = appendUint(b, "tid", uint64(t.TID))
	if t.Parent != 0 {
		b = appendUint(b, "ppid", uint64(t.Parent))
	}
	if t.Start != 0 {
		b = appendUint(b, "start_ticks", uint64(t.Start))
	}
	if t.Cgroup != 0 {
		b = appendUint(b, "cgroup_id", t.Cgroup)
	}
	return append(b, '}')
}

// AppendWaitLine appends a wait as one line of text, without the newline, in the reader's time zone
// (nil: UTC).
func AppendWaitLine(b []byte, w *events.Wait, comm string, zone *time.Location) []byte {
	b = appendWhen(b, w.Start, comm, w.PID, w.TID, zone)
	b = append(b, "  waits: "...)
	b = append(b, w.State.String()...)
	b = append(b, ' ')
	b = appendDuration(b, w.Duration)
	if w.Op != 0 {
		b = append(b, " in "...)
		b = append(b, w.Op.String()...)
	}
	s := tick.Share{Who: w.Who, Own: w.Who.PID == w.PID, Idle: w.Flags&events.WaitIdle != 0, ByIRQ: w.Flags&events.WaitByIRQ != 0,
		Reason: w.Reason, Call: w.Syscall, File: w.File, Dev: w.Dev}
	switch w.State {
	case events.WaitBlocked:
		b = append(b, ": "...)
		b = append(b, blockedOn(&s)...)
	case events.WaitRunnable:
		b = append(b, ": "...)
		b = append(b, cpuUser(&s)...)
		if w.Who.TID != 0 {
			b = append(b, " ("...)
			b = strconv.AppendUint(b, uint64(w.Who.PID), 10)
			b = append(b, ')')
		}
		if w.Taken > 0 {
			b = append(b, " had CPU "...)
			b = strconv.AppendUint(b, uint64(w.CPU), 10)
			b = append(b, " for "...)
			b = appendDuration(b, w.Taken)
		}
	}
	return b
}

// procKinds are the JSON names of process events.
var procKinds = map[tick.ProcKind]string{tick.ProcForked: "fork", tick.ProcExeced: "exec", tick.ProcExited: "exit",
	tick.ProcOOM: "oom-kill", tick.ProcKilled: "kill"}

// AppendProcJSON appends a process event as one line of JSON, without the newline: a
// [wire.ProcessLine].
func AppendProcJSON(b []byte, e *tick.ProcEvent) []byte {
	b = append(b, `{"type":"process","timestamp":"`...)
	b = time.Unix(0, e.Time).UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, '"')
	b = appendText(b, "event", procKinds[e.Kind])
	b = appendUint(b, "pid", uint64(e.PID))
	switch e.Kind {
	case tick.ProcForked:
		b = appendUint(b, "child", uint64(e.Peer))
	case tick.ProcKilled:
		b = appendUint(b, "sender_pid", uint64(e.Peer))
		b = appendText(b, "signal", tick.SignalName(e.Signal))
	}
	if e.Comm != "" {
		b = appendString(appendKey(b, "comm"), e.Comm)
	}
	return append(b, '}')
}
