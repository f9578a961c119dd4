package query

import (
	"database/sql/driver"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"modernc.org/sqlite"

	"ingero/internal/stats"
	"ingero/internal/symbols"
)

// SQLFunction is a function for statements, besides SQLite's own.
type SQLFunction struct {
	Name, Args, About string
}

// sqlFunctions are the functions with their documentation.
var sqlFunctions = []struct {
	SQLFunction
	impl sqlite.FunctionImpl
}{
	{SQLFunction{"percentile", "value, q", "Aggregate: the q-th quantile of the values (q = 0.99 or 99 for the 99th percentile), within 0.8 %. Values are integers of 0 or more, such as durations. NULL is ignored. It needs no sorting."},
		sqlite.FunctionImpl{NArgs: 2, Deterministic: true, MakeAggregate: func(sqlite.FunctionContext) (sqlite.AggregateFunction, error) {
			return &percentile{}, nil
		}}},
	{SQLFunction{"sketch", "value", "Aggregate: the sketch that percentile reads, as bytes, for merging the sketches of several databases. NULL if there are no values."},
		sqlite.FunctionImpl{NArgs: 1, Deterministic: true, MakeAggregate: func(sqlite.FunctionContext) (sqlite.AggregateFunction, error) {
			return &sketched{}, nil
		}}},
	{SQLFunction{"ago", "length", "The current time minus a duration, Unix ns: ago('5m'), ago('2h'), ago('1d')."},
		scalar(1, func(v []driver.Value) (driver.Value, error) {
			d, err := length(v[0])
			return time.Now().Add(-d).UnixNano(), err
		})},
	{SQLFunction{"ns", "length or time", "A duration ('5ms') in nanoseconds, or a time ('2026-11-21T15:04:05Z') in Unix nanoseconds."},
		scalar(1, func(v []driver.Value) (driver.Value, error) {
			if d, err := length(v[0]); err == nil {
				return int64(d), nil
			}
			t, err := moment(v[0], time.Time{})
			return t.UnixNano(), err
		})},
	{SQLFunction{"iso", "ns", "A time in Unix ns as text, in UTC."},
		scalar(1, func(v []driver.Value) (driver.Value, error) {
			n, err := toInt(v[0])
			return unixTime(n).UTC().Format("2006-01-02T15:04:05.000000000Z"), err
		})},
	{SQLFunction{"demangle", "name", "A mangled C++ name as written in the source: names.name."},
		scalar(1, func(v []driver.Value) (driver.Value, error) { return symbols.Demangle(textOf(v[0])), nil })},
	{SQLFunction{"us", "ns", "Nanoseconds as microseconds."}, inUnits(time.Microsecond)},
	{SQLFunction{"ms", "ns", "Nanoseconds as milliseconds."}, inUnits(time.Millisecond)},
	{SQLFunction{"s", "ns", "Nanoseconds as seconds."}, inUnits(time.Second)},
}

// scalar is a function that returns NULL for NULL. SQLite treats each, even ago, as constant within
// a statement.
func scalar(n int32, f func([]driver.Value) (driver.Value, error)) sqlite.FunctionImpl {
	return sqlite.FunctionImpl{NArgs: n, Deterministic: true, Scalar: func(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
		for _, a := range args {
			if a == nil {
				return nil, nil
			}
		}
		return f(args)
	}}
}

func inUnits(unit time.Duration) sqlite.FunctionImpl {
	return scalar(1, func(v []driver.Value) (driver.Value, error) {
		switch n := v[0].(type) {
		case int64:
			return float64(n) / float64(unit), nil
		case float64:
			return n / float64(unit), nil
		}
		return nil, fmt.Errorf("%.40q is not a number", textOf(v[0]))
	})
}

func length(v driver.Value) (time.Duration, error) {
	d, err := duration(textOf(v))
	if err != nil {
		return 0, fmt.Errorf("%.40q is not a duration such as 5m", textOf(v))
	}
	return d, nil
}

func toInt(v driver.Value) (int64, error) {
	switch n := v.(type) {
	case int64:
		return n, nil
	case float64:
		if math.Abs(n) < 1<<63 {
			return int64(math.Round(n)), nil
		}
	}
	return 0, fmt.Errorf("%.40q is not an integer", textOf(v))
}

// percentile is an aggregate with bounded memory.
type percentile struct {
	values stats.Sketch
	q      float64
}

// Step adds a value.
func (p *percentile) Step(_ *sqlite.FunctionContext, args []driver.Value) (err error) {
	if args[0] == nil {
		return nil
	}
	if p.q, err = share(args[1]); err != nil {
		return err
	}
	n, err := toInt(args[0])
	if err == nil && n < 0 {
		err = fmt.Errorf("percentile does not accept the negative value %d", n)
	}
	p.values.Add(n, 1)
	return err
}

// WindowInverse fails: a value cannot be removed.
func (p *percentile) WindowInverse(*sqlite.FunctionContext, []driver.Value) error {
	return fmt.Errorf("percentile cannot be used as a window function with a moving frame")
}

// WindowValue returns the percentile.
func (p *percentile) WindowValue(*sqlite.FunctionContext) (driver.Value, error) {
	if p.values.Count() == 0 {
		return nil, nil
	}
	return p.values.Quantile(p.q), nil
}

// Final has nothing to free.
func (p *percentile) Final(*sqlite.FunctionContext) {}

// sketched is the aggregate that returns the sketch.
type sketched struct{ percentile }

// Step adds a value.
func (p *sketched) Step(c *sqlite.FunctionContext, args []driver.Value) error {
	return p.percentile.Step(c, []driver.Value{args[0], 0.5})
}

// WindowValue returns the binary form.
func (p *sketched) WindowValue(*sqlite.FunctionContext) (driver.Value, error) {
	if p.values.Count() == 0 {
		return nil, nil
	}
	return p.values.MarshalBinary()
}

// linear are replacements of SQLite functions whose time grows with the product of their arguments'
// lengths and which cannot be interrupted. These take time linear in the sum.
var linear = map[string]sqlite.FunctionImpl{
	"replace": scalar(3, func(v []driver.Value) (driver.Value, error) {
		s, from, to := textOf(v[0]), textOf(v[1]), textOf(v[2])
		if from == "" {
			return v[0], nil
		}
		if n := strings.Count(s, from); len(s)+n*(len(to)-len(from)) > sqlLength {
			return nil, fmt.Errorf("the result of replace has more than %d bytes", sqlLength)
		}
		return strings.ReplaceAll(s, from, to), nil
	}),
	"instr": scalar(2, func(v []driver.Value) (driver.Value, error) {
		s, part := textOf(v[0]), textOf(v[1])
		at := strings.Index(s, part)
		if at < 0 {
			return int64(0), nil
		}
		_, blob := v[0].([]byte)
		if _, too := v[1].([]byte); blob && too {
			return int64(at) + 1, nil
		}
		return int64(utf8.RuneCountInString(s[:at])) + 1, nil
	}),
	"trim":  trimmer(strings.TrimFunc),
	"ltrim": trimmer(strings.TrimLeftFunc),
	"rtrim": trimmer(strings.TrimRightFunc),
}

// trimmer is trim with the characters to remove. SQLite's own handles one argument.
func trimmer(trim func(string, func(rune) bool) string) sqlite.FunctionImpl {
	return scalar(2, func(v []driver.Value) (driver.Value, error) {
		set := map[rune]bool{}
		for _, r := range textOf(v[1]) {
			set[r] = true
		}
		return trim(textOf(v[0]), func(r rune) bool { return set[r] }), nil
	})
}

// textOf converts a value to text as SQLite does.
func textOf(v driver.Value) string {
	switch v := v.(type) {
	case string:
		return v
	case []byte:
		return string(v)
	case float64:
		s := strconv.FormatFloat(v, 'g', 15, 64)
		if !strings.ContainsAny(s, ".eIN") {
			s += ".0"
		}
		return s
	}
	return fmt.Sprint(v)
}
