package explain

import (
	"encoding/json"
	"strconv"
	"time"

	"ingero/pkg/events"
)

// AppendCallJSON appends a call as one line of JSON, without the newline: a [wire.CallLine], written
// by hand because a trace prints many.
func AppendCallJSON(b []byte, c *events.Call, comm, function string) []byte {
	b = append(b, `{"type":"call","timestamp":"`...)
	b = time.Unix(0, c.Start).UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","pid":`...)
	b = strconv.AppendUint(b, uint64(c.PID), 10)
	b = appendUint(b, "tid", uint64(c.TID))
	if comm != "" {
		b = append(b, `,"comm":`...)
		b = appendString(b, comm)
	}
	b = appendText(b, "source", c.Op.Source().String())
	b = appendText(b, "op", c.Op.String())
	if c.Flags&events.CallNested != 0 {
		b = appendText(b, "parent", c.Parent.String())
	}
	if c.Device > 0 {
		b = appendUint(b, "device", uint64(c.Device)-1)
	}
	if function != "" {
		b = append(b, `,"function":`...)
		b = appendString(b, function)
	}
	if c.Weight > 1 {
		b = appendUint(b, "weight", uint64(c.Weight))
	}
	if c.Flags&events.CallUnmeasured == 0 {
		b = appendTimes(b, c)
	}
	if c.Stack != 0 {
		b = appendUint(b, "stack_id", uint64(c.Stack))
		if n := c.StackWeight(); n > 1 {
			b = appendUint(b, "stack_weight", n)
		}
	}
	if c.GapStack != 0 {
		b = appendUint(b, "gap_stack_id", uint64(c.GapStack))
	}
	b = append(b, `,"args":{`...)
	first := true
	eachArg(c, func(a *arg, v uint64) {
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(b, '"')
		b = append(b, a.name...)
		b = append(b, `":`...)
		b = appendArg(b, a, v)
	})
	b = append(b, '}')
	for _, f := range [...]struct {
		flag events.CallFlags
		text string
	}{
		{events.CallLedgerPartial, `,"ledger_partial":true`}, {events.CallGapPartial, `,"gap_partial":true`},
		{events.CallArgsPartial, `,"args_partial":true`}, {events.CallInherited, `,"inherited":true`},
		{events.CallUnseen, `,"unseen_switches":true`},
	} {
		if c.Flags&f.flag != 0 {
			b = append(b, f.text...)
		}
	}
	return append(b, '}')
}

// AppendCallWithStackJSON is [AppendCallJSON] with the frames of the call's stack in field stack:
// see [AppendFramesJSON].
func AppendCallWithStackJSON(b []byte, c *events.Call, comm, function string, s *events.Stack) []byte {
	b = AppendCallJSON(b, c, comm, function)
	b = append(b[:len(b)-1], `,"stack":`...)
	return append(AppendFramesJSON(b, s, function), '}')
}

// appendTimes appends the fields of a call whose return was seen.
func appendTimes(b []byte, c *events.Call) []byte {
	b = appendInt(b, "duration_ns", c.Duration)
	b = append(appendDuration(append(b, `,"duration":"`...), c.Duration), '"')
	b = appendInt(b, "result", int64(c.Result))
	if c.Flags&events.CallFailed != 0 {
		b = appendText(b, "error", events.ErrorName(c.Op, c.Result))
	}
	if c.Flags&events.CallNoLedger == 0 {
		b = appendInt(b, "runnable_ns", c.Runnable)
	}
	if c.Throttled > 0 {
		b = appendInt(b, "throttled_ns", c.Throttled)
	}
	if c.Flags&events.CallLedgerPartial == 0 {
		b = appendInt(b, "on_cpu_ns", c.OnCPU)
		b = appendInt(b, "blocked_ns", c.Blocked)
	}
	if c.Gap > 0 { // nested calls and a thread's first call have no gap
		b = appendInt(b, "gap_ns", c.Gap)
		b = appendInt(b, "gap_runnable_ns", c.GapRunnable)
		if c.GapThrottled > 0 {
			b = appendInt(b, "gap_throttled_ns", c.GapThrottled)
		}
		if c.Flags&events.CallGapPartial == 0 {
			b = appendInt(b, "gap_on_cpu_ns", c.GapOnCPU)
			b = appendInt(b, "gap_blocked_ns", c.GapBlocked)
		}
	}
	return b
}

func appendKey(b []byte, key string) []byte {
	b = append(b, ',', '"')
	b = append(b, key...)
	return append(b, '"', ':')
}

func appendInt(b []byte, key string, v int64) []byte {
	return strconv.AppendInt(appendKey(b, key), v, 10)
}

func appendUint(b []byte, key string, v uint64) []byte {
	return strconv.AppendUint(appendKey(b, key), v, 10)
}

// appendText appends a constant text that needs no quoting.
func appendText(b []byte, key, v string) []byte {
	b = append(appendKey(b, key), '"')
	b = append(b, v...)
	return append(b, '"')
}

// appendString appends a text from the traced machine.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if ch := s[i]; ch < ' ' || ch > '~' || ch == '"' || ch == '\\' {
			quoted, _ := json.Marshal(clean(s)) // a string cannot fail
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// appendWhen appends the time (Unix ns) and the thread of a call or wait.
func appendWhen(b []byte, start int64, comm string, pid, tid uint32, zone *time.Location) []byte {
	if zone == nil {
		zone = time.UTC
	}
	b = time.Unix(0, start).In(zone).AppendFormat(b, "15:04:05.000000")
	b = append(b, "  "...)
	b = append(b, processName(comm, pid)...)
	if tid != pid {
		b = append(b, " thread "...)
		b = strconv.AppendUint(b, uint64(tid), 10)
	}
	return b
}

// AppendCallLine appends a call as one line of text, without the newline, in the reader's time zone
// (nil: UTC).
func AppendCallLine(b []byte, c *events.Call, comm, function string, zone *time.Location) []byte {
	b = appendWhen(b, c.Start, comm, c.PID, c.TID, zone)
	b = append(b, ' ', ' ')
	b = append(b, c.Op.String()...)
	if function != "" {
		b = append(append(append(b, " of "...), function...), ' ')
	}
	if c.Flags&events.CallUnmeasured == 0 {
		b = append(b, ' ')
		b = appendDuration(b, c.Duration)
		b = appendSplit(b, c)
		if c.Flags&events.CallFailed != 0 {
			b = append(b, "  FAILED "...)
			b = append(b, events.ErrorName(c.Op, c.Result)...)
		}
	}
	eachArg(c, func(a *arg, v uint64) {
		b = append(b, ' ', ' ')
		b = append(b, a.name...)
		b = append(b, '=')
		value := len(b)
		b = appendArg(b, a, v)
		if b[value] == '"' { // remove the JSON quotes
			copy(b[value:], b[value+1:len(b)-1])
			b = b[:len(b)-2]
		}
	})
	if c.Flags&events.CallNested != 0 {
		b = append(b, "  in "...)
		b = append(b, c.Parent.String()...)
	}
	if c.Weight > 1 {
		b = append(b, "  for "...)
		b = strconv.AppendUint(b, uint64(c.Weight), 10)
		b = append(b, " calls"...)
	}
	return b
}

// appendSplit appends the parts of a call's time if it was not all on a CPU.
func appendSplit(b []byte, c *events.Call) []byte {
	partial := c.Flags&events.CallLedgerPartial != 0
	if c.Runnable == 0 && c.Blocked == 0 && c.Throttled == 0 && !partial {
		return b
	}
	b = append(b, " = "...)
	if partial {
		b = append(b, "on CPU or blocked "...)
		b = appendDuration(b, c.Duration-c.Runnable-c.Throttled)
	} else {
		b = append(b, "on CPU "...)
		b = appendDuration(b, c.OnCPU)
	}
	b = append(b, " + runnable "...)
	b = appendDuration(b, c.Runnable)
	if c.Throttled > 0 {
		b = append(b, " + throttled "...)
		b = appendDuration(b, c.Throttled)
	}
	if !partial {
		b = append(b, " + blocked "...)
		b = appendDuration(b, c.Blocked)
	}
	return b
}
