package query

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"modernc.org/sqlite/vtab"

	"ingero/internal/store/segment"
	"ingero/pkg/events"
)

// filter makes a Filter of the conditions on the columns session, node, pid, op and timed. SQLite
// rechecks all conditions but op's. filter returns false if nothing can match.
func (a *scanRequest) filter(timed string) (Filter, bool) {
	f := Filter{Session: AllSessions}
	from, to := int64(math.MinInt64), int64(math.MaxInt64)
	for _, t := range a.terms {
		if t.column >= len(a.v.Columns) {
			continue
		}
		text, isText := t.value.(string)
		n, isInt := t.value.(int64)
		switch name := a.v.Columns[t.column].Name; {
		case name == timed && isInt:
			from, to = bound(from, to, t.op, n)
		case name == "pid" && isInt:
			if n < 0 || n > math.MaxUint32 {
				return f, false
			}
			f.PIDs = []uint32{uint32(n)}
		case name == "op": // SQLite does not recheck it
			if f.Ops = intersect(f.Ops, events.OpsNamed(text)); !isText || len(f.Ops) == 0 {
				return f, false
			}
		case name == "session" && isText && text != "" && text != AllSessions:
			f.Session = text
		case name == "node" && isText:
			f.Node = text
		}
	}
	if from > math.MinInt64 {
		f.From = unixTime(from)
	}
	if to < math.MaxInt64 {
		f.To = unixTime(to)
	}
	return f, from < to
}

// bound narrows [from, to) by a condition.
func bound(from, to int64, op vtab.ConstraintOp, n int64) (int64, int64) {
	after := n
	if n < math.MaxInt64 {
		after++
	}
	switch op {
	case vtab.OpGE:
		from = max(from, n)
	case vtab.OpGT:
		from = max(from, after)
	case vtab.OpLT:
		to = min(to, n)
	case vtab.OpLE:
		to = min(to, after)
	case vtab.OpEQ:
		from, to = max(from, n), min(to, after)
	}
	return from, to
}

// intersect returns the operations in both lists; nil means all.
func intersect(a, b []events.Op) []events.Op {
	if a == nil {
		return b
	}
	var out []events.Op
	for _, o := range a {
		for _, p := range b {
			if o == p {
				out = append(out, o)
			}
		}
	}
	return out
}

// between bounds a Filter by the arguments since and until.
func (a *scanRequest) between(s *statement, f Filter) (Filter, error) {
	since, err := s.moment(a, "since")
	if err != nil {
		return f, err
	}
	until, err := s.moment(a, "until")
	if err != nil {
		return f, err
	}
	f.From, f.To = since, until
	return f, nil
}

// moment parses a time argument, zero for none.
func (s *statement) moment(a *scanRequest, name string) (time.Time, error) {
	t, err := moment(a.arg(name), s.now)
	if err != nil {
		return t, &SQLError{What: fmt.Sprintf("%s of %s: %v", name, a.v.Name, err), Do: momentsAre}
	}
	return t, nil
}

const momentsAre = "write Unix nanoseconds, '5m' (5 minutes ago) or '2026-11-21T15:04:05Z'"

// moment parses a time as typed by people: see momentsAre. Nil is the zero time.
func moment(v any, now time.Time) (time.Time, error) {
	switch v := v.(type) {
	case nil:
		return time.Time{}, nil
	case int64:
		return unixTime(v), nil
	case float64: // an expression with a fraction
		if math.Abs(v) < 1<<63 {
			return unixTime(int64(v)), nil
		}
	case string:
		if d, err := duration(v); err == nil {
			return now.Add(-d), nil
		}
		for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", time.DateTime, "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly} {
			if t, err := time.Parse(layout, v); err == nil {
				return t, nil
			}
		}
	}
	return time.Time{}, fmt.Errorf("%.40q is not a time", fmt.Sprint(v))
}

// duration parses 90s, 1h30m and, beyond Go's syntax, 2d and 1w.
func duration(s string) (time.Duration, error) {
	s = strings.TrimSpace(s)
	for unit, hours := range map[string]float64{"d": 24, "w": 7 * 24} {
		if n, ok := strings.CutSuffix(s, unit); ok {
			d, err := time.ParseDuration(n + "h")
			if err == nil && math.Abs(float64(d)*hours) >= math.MaxInt64 {
				err = errors.New("the duration is longer than 292 years")
			}
			return time.Duration(float64(d) * hours), err
		}
	}
	return time.ParseDuration(s)
}

// unread reports whether an error is about missing parts of a recording, which the answer notes and
// skips; it then records the note.
func (s *statement) unread(session string, err error) bool {
	switch {
	case errors.Is(err, ErrNoSession):
	case errors.Is(err, ErrNoCalls):
		s.note(Coverage{Missing: []string{session}})
	case segment.Unreadable(err):
		s.note(Coverage{Damage: []string{err.Error()}})
	default:
		return err == nil
	}
	return true
}
