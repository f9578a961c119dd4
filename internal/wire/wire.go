// Package wire defines the JSON that leaves the process: reports, ticks, the states and differences
// derived from them, the output of commands, and the answers of the read API and of a fleet. Package
// explain fills the types of reports and ticks, package dashboard serves the answers, package fleet
// requests them from other machines. Packages lock, query, store/segment, store/maintain and cli/check
// fill types of this package directly: the state that a trace publishes in a file is what ingero
// status prints.
//
// The names of fields are stable. Durations are nanoseconds (_ns) and sizes bytes unless a field's
// name has another unit; times are RFC 3339 in UTC, or Unix nanoseconds of the machine's own clock.
// An unknown value is absent or null, never zero. docs/reference/api.md describes the API.
package wire

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"ingero/internal/tick"
)

// Clock is the answer of /api/v1/time.
type Clock struct {
	Node    string `json:"node"`
	Version string `json:"version"`
	TimeNS  int64  `json:"time_ns"`
	Time    string `json:"time"` // RFC 3339 in UTC
}

// Statement is the request of /api/v1/query. Zero is each bound's default.
type Statement struct {
	SQL       string `json:"sql"`
	Limit     int    `json:"limit,omitempty"` // rows
	TimeoutMS int64  `json:"timeout_ms,omitempty"`
}

// Rows is the answer of /api/v1/query.
type Rows struct {
	Node    string   `json:"node"`
	Columns []string `json:"columns"`
	Rows    []Row    `json:"rows"`
	Cut     string   `json:"cut"` // why further rows are missing
	Notes   []string `json:"notes"`
	TookMS  float64  `json:"took_ms"`
}

// Row has a row's values: nil, int64, float64, string and []byte. In JSON a float has a point or an
// exponent, and bytes are {"hex": "00ff"}.
type Row []any

// MarshalJSON encodes the row. A float without a JSON number is null.
func (r Row) MarshalJSON() ([]byte, error) {
	b := []byte{'['}
	for i, v := range r {
		if i > 0 {
			b = append(b, ',')
		}
		switch v := v.(type) {
		case nil:
			b = append(b, "null"...)
		case int64:
			b = strconv.AppendInt(b, v, 10)
		case float64:
			if math.IsNaN(v) || math.IsInf(v, 0) {
				b = append(b, "null"...)
				continue
			}
			at := len(b)
			b = strconv.AppendFloat(b, v, 'g', -1, 64)
			if !bytes.ContainsAny(b[at:], ".e") {
				b = append(b, ".0"...)
			}
		case []byte:
			b = fmt.Appendf(b, `{"hex":"%x"}`, v)
		case string:
			text, err := json.Marshal(v)
			if err != nil {
				return nil, err
			}
			b = append(b, text...)
		default:
			return nil, fmt.Errorf("a value of type %T", v)
		}
	}
	return append(b, ']'), nil
}

// UnmarshalJSON decodes the row.
func (r *Row) UnmarshalJSON(text []byte) error {
	var cells []json.RawMessage
	if err := json.Unmarshal(text, &cells); err != nil {
		return err
	}
	out := make(Row, len(cells))
	for i, c := range cells {
		v, err := valueOf(c)
		if err != nil {
			return err
		}
		out[i] = v
	}
	*r = out
	return nil
}

func valueOf(c json.RawMessage) (any, error) {
	switch c[0] {
	case 'n':
		return nil, nil
	case '"':
		var s string
		err := json.Unmarshal(c, &s)
		return s, err
	case '{':
		var blob struct{ Hex *string }
		if err := json.Unmarshal(c, &blob); err != nil {
			return nil, err
		}
		if blob.Hex == nil {
			return nil, errors.New("a value is an object that is not bytes")
		}
		return hex.DecodeString(*blob.Hex)
	}
	if !bytes.ContainsAny(c, ".eE") {
		return strconv.ParseInt(string(c), 10, 64)
	}
	return strconv.ParseFloat(string(c), 64)
}

// Ops is the answer of /api/v1/ops with sums=1.
type Ops struct {
	Node   string   `json:"node"`
	FromNS int64    `json:"from_ns"`
	ToNS   int64    `json:"to_ns"`
	Sums   []Sum    `json:"sums"`
	Notes  []string `json:"notes"`
	// Recordings are the IDs of the recordings in the sums.
	Recordings []string `json:"recordings"`
}

// Sum is the sum of an operation's calls, for adding to others. Sketch is the binary form of a
// sketch of package stats.
type Sum struct {
	Op     string      `json:"op"`
	Source uint8       `json:"source"`
	PID    uint32      `json:"pid,omitempty"` // 0: all processes
	Comm   string      `json:"comm,omitempty"`
	Counts tick.Counts `json:"counts"`
	Sketch []byte      `json:"sketch"`
}

// Explained is the answer of /api/v1/explain: the report as JSON and as text. R is [Report], or
// [json.RawMessage] where the report of another machine, of another version, passes through.
type Explained[R any] struct {
	Node   string `json:"node"`
	Report R      `json:"report"`
	Text   string `json:"text"`
}

// Collectives is the answer of /api/v1/collectives.
type Collectives struct {
	Node  string `json:"node"`
	Ranks []Rank `json:"ranks"`
}

// Rank is a rank of an NCCL communicator, in a process of the machine. Its activity is known up to
// SeenNS. Its times are by the machine's wall clock.
type Rank struct {
	Comm    string  `json:"comm"` // the id that its ranks share
	Rank    int32   `json:"rank"` // below 0: unknown
	Ranks   uint32  `json:"ranks"`
	PID     uint32  `json:"pid"`
	Name    string  `json:"name"` // process name
	State   string  `json:"state"`
	Done    uint64  `json:"done"` // number of collectives entered
	SeenNS  int64   `json:"seen_ns"`
	EndedNS int64   `json:"ended_ns,omitempty"` // end of the process; 0: it is alive, or unknown
	Entries []Entry `json:"entries"`            // the last of them, in order
}

// Entry is a rank's entry into a collective: the Seq-th of its communicator.
type Entry struct {
	Seq    uint64 `json:"seq"`
	Op     string `json:"op"`
	TimeNS int64  `json:"time_ns"`
}
