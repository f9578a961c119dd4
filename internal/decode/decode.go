package decode

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"ingero/internal/bpf"
	"ingero/internal/clock"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// ErrRecord reports that bytes are not a record of the requested kind.
var ErrRecord = errors.New("malformed record")

// Clock converts CLOCK_MONOTONIC nanoseconds into Unix nanoseconds. It has one offset for a whole
// session, so that wall-clock steps do not reorder events. Ahead returns their sum.
type Clock struct{ Offset int64 }

// Now reads both clocks and returns the Clock that converts between them.
func Now() (Clock, error) {
	offset, err := clock.Offset()
	return Clock{Offset: offset}, err
}

// Ahead returns how far the wall clock is ahead of c: how far it was set since c was read, plus how long
// the machine slept, because CLOCK_MONOTONIC then stops. Slewing moves both clocks, so it does not
// count. It returns 0 if the clocks cannot be read.
func (c Clock) Ahead() time.Duration {
	now, err := Now()
	if err != nil {
		return 0
	}
	return time.Duration(now.Offset - c.Offset).Round(time.Millisecond)
}

// Slept returns how long the machine has slept since it booted.
func Slept() time.Duration {
	var mono, boot unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono) // every kernel has both
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot)
	return time.Duration(boot.Nano() - mono.Nano()).Round(time.Millisecond)
}

// Wall returns the Unix nanoseconds of a CLOCK_MONOTONIC reading.
func (c Clock) Wall(mono uint64) int64 { return int64(mono) + c.Offset }

// Now returns the current time in Unix nanoseconds, comparable with the times of events.
func (c Clock) Now() int64 {
	var mono unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono) // every kernel has it
	return c.Wall(uint64(mono.Nano()))
}

const (
	recordSize     = int(unsafe.Offsetof(bpf.IngeroCallRecord{}.Throttled))
	throttledSize  = int(unsafe.Offsetof(bpf.IngeroCallRecord{}.GapStack))
	fullSize       = int(unsafe.Sizeof(bpf.IngeroCallRecord{}))
	unmeasuredSize = int(unsafe.Offsetof(bpf.IngeroCallRecord{}.Gap))
	textSize       = int(unsafe.Sizeof(bpf.IngeroTextRecord{}))
	procSize       = int(unsafe.Sizeof(bpf.IngeroProcRecord{}))
	shift          = 10 // for figures in units of 1,024 ns
	shiftMore      = 20 // for those in units of 1,048,576 ns
	stackLevel     = 5  // STACK_LEVEL_SHIFT

	callFlags = events.CallNested | events.CallUnmeasured | events.CallFailed |
		events.CallLedgerPartial | events.CallGapPartial | events.CallArgsPartial | events.CallUnseen
)

// graphs returns the flags that tell whether a graph is among the launches before a call.
func graphs(flags uint16) events.CallFlags {
	switch {
	case flags&uint16(bpf.IngeroCallFlagsCALL_GRAPHS) != 0:
		return events.CallGraphs
	case flags&uint16(bpf.IngeroCallFlagsCALL_NO_GRAPHS) != 0:
		return events.CallNoGraphs
	}
	return 0
}

// Calls decodes one record of the call ring and appends its calls: one, or two if a runtime launch
// and the driver launch inside it share a record. b is not kept. On error nothing is appended.
func Calls(dst []events.Call, b []byte, clock Clock) ([]events.Call, error) {
	if len(b) < unmeasuredSize || b[0] != uint8(bpf.IngeroRecordKindRECORD_CALL) {
		return dst, fmt.Errorf("call of %d bytes: %w", len(b), ErrRecord)
	}
	var r bpf.IngeroCallRecord // the kernel truncates records: missing fields are zero
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&r)), fullSize), b)
	flags := r.Flags
	measured := flags&uint16(events.CallUnmeasured) == 0
	size := recordSize
	switch {
	case flags&uint16(bpf.IngeroCallFlagsCALL_GAP_STACK) != 0:
		size = fullSize
	case flags&uint16(bpf.IngeroCallFlagsCALL_THROTTLED) != 0:
		size = throttledSize
	}
	if measured && len(b) < size {
		return dst, fmt.Errorf("measured call of %d bytes: %w", len(b), ErrRecord)
	}
	dst = append(dst, events.Call{
		Start: clock.Wall(r.StartNs), Args: r.Arg, PID: r.Tgid, TID: r.Tid, Tag: r.Tag,
		Weight: 1 << (r.WeightLog2 & (1<<stackLevel - 1)), Op: events.Op(r.Op), Flags: events.CallFlags(flags)&callFlags | graphs(flags),
		Stack: r.Stack, StackLevel: r.WeightLog2 >> stackLevel,
	})
	c := &dst[len(dst)-1]
	switch {
	case flags&uint16(events.CallNested) != 0:
		c.Parent = events.Op(r.Other)
	case flags&uint16(bpf.IngeroCallFlagsCALL_FOLDED) == 0:
		c.Launches = r.Other
	}
	if measured {
		times(c, &r)
	}
	if flags&uint16(bpf.IngeroCallFlagsCALL_FOLDED) != 0 {
		dst = append(dst, events.Call{
			Start: c.Start, Args: c.Args, PID: c.PID, TID: c.TID, Tag: c.Tag, Weight: c.Weight,
			Op: events.Op(r.Other), Parent: c.Op,
			Flags: events.CallNested | events.CallUnmeasured | events.CallInherited,
		})
	}
	return dst, nil
}

// times sets the fields that only a measured call has.
func times(c *events.Call, r *bpf.IngeroCallRecord) {
	flags := r.Flags
	c.Duration, c.Result = int64(r.DurationNs), r.Result
	c.OnCPU = scaled(r.OnCpu, flags, bpf.IngeroCallFlagsCALL_SHIFT, bpf.IngeroCallFlagsCALL_SHIFT_MORE)
	c.Runnable = scaled(r.Runnable, flags, bpf.IngeroCallFlagsCALL_SHIFT, bpf.IngeroCallFlagsCALL_SHIFT_MORE)
	if flags&uint16(bpf.IngeroCallFlagsCALL_THROTTLED) != 0 {
		c.Throttled = scaled(r.Throttled, flags, bpf.IngeroCallFlagsCALL_SHIFT, bpf.IngeroCallFlagsCALL_SHIFT_MORE)
		c.GapThrottled = scaled(r.GapThrottled, flags, bpf.IngeroCallFlagsCALL_SHIFT_GAP, bpf.IngeroCallFlagsCALL_SHIFT_MORE_GAP)
	}
	c.Blocked = max(0, c.Duration-c.OnCPU-c.Runnable-c.Throttled)
	c.Gap = scaled(r.Gap, flags, bpf.IngeroCallFlagsCALL_SHIFT_GAP, bpf.IngeroCallFlagsCALL_SHIFT_MORE_GAP)
	c.GapOnCPU = scaled(r.GapOnCpu, flags, bpf.IngeroCallFlagsCALL_SHIFT_GAP, bpf.IngeroCallFlagsCALL_SHIFT_MORE_GAP)
	c.GapRunnable = scaled(r.GapRunnable, flags, bpf.IngeroCallFlagsCALL_SHIFT_GAP, bpf.IngeroCallFlagsCALL_SHIFT_MORE_GAP)
	c.GapBlocked = max(0, c.Gap-c.GapOnCPU-c.GapRunnable-c.GapThrottled)
	if flags&uint16(bpf.IngeroCallFlagsCALL_GAP_STACK) != 0 {
		c.GapStack = r.GapStack
	}
}

// scaled converts a figure to ns. unit and more are the flags of its unit.
func scaled(v uint32, flags uint16, unit, more bpf.IngeroCallFlags) int64 {
	switch {
	case flags&uint16(more) != 0:
		return int64(v) << shiftMore
	case flags&uint16(unit) != 0:
		return int64(v) << shift
	}
	return int64(v)
}

// Texts decodes one record of a string and appends it. b is not kept. On error nothing is appended.
func Texts(dst []events.Text, b []byte, clock Clock) ([]events.Text, error) {
	if len(b) < textSize || b[0] != uint8(bpf.IngeroRecordKindRECORD_TEXT) {
		return dst, fmt.Errorf("text of %d bytes: %w", len(b), ErrRecord)
	}
	r := (*bpf.IngeroTextRecord)(unsafe.Pointer(&b[0]))
	size := uint64(r.Size) // including its terminator
	if size == 0 || size > uint64(len(b)-textSize) || size > events.MaxText+2 {
		return dst, fmt.Errorf("text of %d bytes in a record of %d: %w", size, len(b), ErrRecord)
	}
	text := b[textSize : textSize+int(size)-1]
	if i := bytes.IndexByte(text, 0); i >= 0 {
		text = text[:i]
	}
	return append(dst, events.Text{
		Time: clock.Wall(r.TimeNs), PID: r.Tgid, TID: r.Tid, Op: events.Op(r.Op),
		Cut: len(text) > events.MaxText, Text: strings.ToValidUTF8(string(text[:min(len(text), events.MaxText)]), "?"),
	}), nil
}

// Gate is the kind of event of a process that waits for its probes and must be resumed.
const Gate tick.ProcKind = 0x80

var procKinds = map[uint8]tick.ProcKind{
	uint8(bpf.IngeroRecordKindRECORD_FORK): tick.ProcForked,
	uint8(bpf.IngeroRecordKindRECORD_EXEC): tick.ProcExeced,
	uint8(bpf.IngeroRecordKindRECORD_EXIT): tick.ProcExited,
	uint8(bpf.IngeroRecordKindRECORD_GATE): Gate,
	uint8(bpf.IngeroRecordKindRECORD_OOM):  tick.ProcOOM,
	uint8(bpf.IngeroRecordKindRECORD_KILL): tick.ProcKilled,
}

// Proc decodes one record of the critical ring. b is not kept.
func Proc(b []byte, clock Clock) (tick.ProcEvent, error) {
	if len(b) < procSize || procKinds[b[0]] == 0 {
		return tick.ProcEvent{}, fmt.Errorf("process event of %d bytes: %w", len(b), ErrRecord)
	}
	r := (*bpf.IngeroProcRecord)(unsafe.Pointer(&b[0]))
	return tick.ProcEvent{
		Time: clock.Wall(r.TimeNs), Kind: procKinds[b[0]],
		PID: r.Tgid, TID: r.Tid, Peer: r.Peer, Comm: text(r.Comm), Signal: r.Signal,
	}, nil
}

// text returns a thread's name, as valid UTF-8.
func text(comm [16]int8) string {
	var b strings.Builder
	for _, ch := range comm {
		if ch == 0 {
			break
		}
		b.WriteByte(byte(ch))
	}
	return strings.ToValidUTF8(b.String(), "?")
}
