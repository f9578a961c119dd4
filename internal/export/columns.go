package export

import (
	"github.com/parquet-go/parquet-go"
	"strings"

	"ingero/internal/query"
	"ingero/internal/symbols"
	"ingero/pkg/events"
)

// kind is a column's type.
type kind uint8

const (
	text    kind = iota
	number       // 64 bits, signed
	natural      // 64 bits, unsigned
	small        // 32 bits, unsigned
	integer      // 32 bits, signed
	truth
)

// call is one row.
type call struct {
	*events.Call
	s      *session
	number uint64 // in its session, from 0
	id     []byte // buffer
}

// session holds the common values of a session's rows.
type session struct {
	*query.Session
	id, node []byte
	procs    map[uint32]*process
	funcs    *symbols.Functions
	readable map[string]parquet.Value // demangled names
}

// process holds the common values of a process's rows.
type process struct {
	comm, cgroup parquet.Value
	where        []parquet.Value // of whereColumns
}

// column is a column with its value's function; unknown values are NULL.
type column struct {
	name  string
	kind  kind
	value func(*call) parquet.Value
}

var null = parquet.NullValue()

// columns are a call's columns, in order.
var columns = append(callColumns, whereColumns...)

var callColumns = []column{
	{"id", text, func(c *call) parquet.Value {
		c.id = c.s.AppendCallID(c.id[:0], c.number)
		return parquet.ByteArrayValue(c.id)
	}},
	{"node", text, func(c *call) parquet.Value { return parquet.ByteArrayValue(c.s.node) }},
	{"session", text, func(c *call) parquet.Value { return parquet.ByteArrayValue(c.s.id) }},
	{"source", text, func(c *call) parquet.Value { return textValue(c.Op.Source().String()) }},
	{"op", text, func(c *call) parquet.Value { return textValue(c.Op.String()) }},
	{"pid", small, func(c *call) parquet.Value { return smallValue(c.PID) }},
	{"tid", small, func(c *call) parquet.Value { return smallValue(c.TID) }},
	{"timestamp", number, func(c *call) parquet.Value { return parquet.Int64Value(c.Start) }},
	{"duration_ns", number, func(c *call) parquet.Value { return known(c.measured(), c.Duration) }},
	{"oncpu_ns", number, func(c *call) parquet.Value { return known(c.split(), c.OnCPU) }},
	{"runnable_ns", number, func(c *call) parquet.Value { return known(c.ledger(), c.Runnable) }},
	{"throttled_ns", number, func(c *call) parquet.Value { return known(c.ledger(), c.Throttled) }},
	{"blocked_ns", number, func(c *call) parquet.Value { return known(c.split(), c.Blocked) }},
	{"gap_ns", number, func(c *call) parquet.Value { return known(c.gap(), c.Gap) }},
	{"gap_oncpu_ns", number, func(c *call) parquet.Value { return known(c.gapSplit(), c.GapOnCPU) }},
	{"gap_runnable_ns", number, func(c *call) parquet.Value { return known(c.gap(), c.GapRunnable) }},
	{"gap_throttled_ns", number, func(c *call) parquet.Value { return known(c.gap(), c.GapThrottled) }},
	{"gap_blocked_ns", number, func(c *call) parquet.Value { return known(c.gapSplit(), c.GapBlocked) }},
	{"result", integer, func(c *call) parquet.Value {
		if !c.measured() {
			return null
		}
		return parquet.Int32Value(c.Result)
	}},
	{"failed", truth, func(c *call) parquet.Value {
		if !c.measured() {
			return null
		}
		return parquet.BooleanValue(c.Flags&events.CallFailed != 0)
	}},
	{"nested", truth, func(c *call) parquet.Value { return parquet.BooleanValue(c.Flags&events.CallNested != 0) }},
	{"parent", text, func(c *call) parquet.Value {
		if c.Parent == 0 {
			return null
		}
		return textValue(c.Parent.String())
	}},
	{"weight", small, func(c *call) parquet.Value { return smallValue(c.Weight) }},
	{"stack", small, func(c *call) parquet.Value {
		if c.Stack == 0 {
			return null
		}
		return smallValue(c.Stack)
	}},
	{"device", small, func(c *call) parquet.Value {
		if c.Device <= 0 {
			return null
		}
		return smallValue(uint32(c.Device) - 1)
	}},
	{"tag", small, func(c *call) parquet.Value {
		if r := c.Op.Row(); r != nil && r.Tag == "" {
			return null
		}
		return smallValue(c.Tag)
	}},
	{"arg0", natural, func(c *call) parquet.Value { return c.arg(0) }},
	{"arg1", natural, func(c *call) parquet.Value { return c.arg(1) }},
	{"arg2", natural, func(c *call) parquet.Value { return c.arg(2) }},
	{"arg3", natural, func(c *call) parquet.Value { return c.arg(3) }},
	{"comm", text, func(c *call) parquet.Value {
		if p := c.s.procs[c.PID]; p != nil {
			return p.comm
		}
		return null
	}},
	{"cgroup", text, func(c *call) parquet.Value {
		if p := c.s.procs[c.PID]; p != nil {
			return p.cgroup
		}
		return null
	}},
	{"function", text, func(c *call) parquet.Value { return c.s.function(c.s.funcs.Name(c.Call)) }},
}

// measured reports whether the call's return was seen, ledger whether its time has parts, and split
// whether these are known separately.
func (c *call) measured() bool { return c.Flags&events.CallUnmeasured == 0 }
func (c *call) ledger() bool   { return c.measured() && c.Flags&events.CallNoLedger == 0 }
func (c *call) split() bool    { return c.ledger() && c.Flags&events.CallLedgerPartial == 0 }

// gap reports whether a gap precedes the call. Nested calls have none, nor has a thread's first
// call. The gap of an unmeasured call is part of the next call's.
func (c *call) gap() bool      { return c.measured() && c.Gap > 0 }
func (c *call) gapSplit() bool { return c.gap() && c.Flags&events.CallGapPartial == 0 }

// arg returns an argument that the operation keeps. An unreadable one is 0.
func (c *call) arg(i int) parquet.Value {
	unread := c.Flags&events.CallArgsPartial != 0 && c.Args[i] == 0
	if r := c.Op.Row(); unread || r != nil && i >= len(r.Keep) {
		return null
	}
	return parquet.Int64Value(int64(c.Args[i]))
}

func known(ok bool, ns int64) parquet.Value {
	if !ok {
		return null
	}
	return parquet.Int64Value(ns)
}

func smallValue(v uint32) parquet.Value { return parquet.Int32Value(int32(v)) }

// textValue returns a constant text. All formats need UTF-8, and names in older recordings may be
// invalid.
func textValue(s string) parquet.Value { return parquet.ValueOf(strings.ToValidUTF8(s, "?")) }

// function returns a GPU function's demangled name.
func (s *session) function(name string) parquet.Value {
	v, ok := s.readable[name]
	if !ok {
		v = nameValue(symbols.Demangle(name))
		s.readable[name] = v
	}
	return v
}
