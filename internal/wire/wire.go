// Package wire has what the machines of a fleet say to each other, as JSON over HTTP:
// the answers of the read API that another ingero puts together. Package dashboard
// gives them, package fleet asks for them. Times are Unix nanoseconds of the machine's
// own clock. docs/reference/api.md describes the whole API.
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

// Clock is what /api/v1/time answers.
type Clock struct {
	Node    string `json:"node"`
	Version string `json:"version"`
	TimeNS  int64  `json:"time_ns"`
	Time    string `json:"time"` // RFC 3339 in UTC
}

// Statement is what /api/v1/query takes. Zero is the default of each bound.
type Statement struct {
	SQL       string `json:"sql"`
	Limit     int    `json:"limit,omitempty"` // rows
	TimeoutMS int64  `json:"timeout_ms,omitempty"`
}

// Rows is what it answers.
type Rows struct {
	Node    string   `json:"node"`
	Columns []string `json:"columns"`
	Rows    []Row    `json:"rows"`
	Cut     string   `json:"cut"` // why there are no more rows, though there would be
	Notes   []string `json:"notes"`
	TookMS  float64  `json:"took_ms"`
}

// Row has the values of a row: nil, int64, float64, string and []byte. As JSON a float
// has a point or an exponent, and bytes are {"hex": "00ff"}.
type Row []any

// MarshalJSON writes it. A float that JSON has no number for is null.
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

// UnmarshalJSON reads it.
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

// Ops is what /api/v1/ops answers with sums=1.
type Ops struct {
	Node   string   `json:"node"`
	FromNS int64    `json:"from_ns"`
	ToNS   int64    `json:"to_ns"`
	Sums   []Sum    `json:"sums"`
	Notes  []string `json:"notes"`
	// Recordings are the IDs of those that were summed up.
	Recordings []string `json:"recordings"`
}

// Sum is what the calls of an operation sum to, to be added to others. Sketch is the
// binary form of a sketch of package stats.
type Sum struct {
	Op     string      `json:"op"`
	Source uint8       `json:"source"`
	PID    uint32      `json:"pid,omitempty"` // 0: not told apart
	Comm   string      `json:"comm,omitempty"`
	Counts tick.Counts `json:"counts"`
	Sketch []byte      `json:"sketch"`
}

// Report is what /api/v1/explain answers: the report as JSON and as text.
type Report struct {
	Node   string          `json:"node"`
	Report json.RawMessage `json:"report"`
	Text   string          `json:"text"`
}

// Collectives is what /api/v1/collectives answers.
type Collectives struct {
	Node  string `json:"node"`
	Ranks []Rank `json:"ranks"`
}

// Rank is a rank of an NCCL communicator, in a process of the machine. What it did is
// known up to SeenNS.
type Rank struct {
	Comm    string  `json:"comm"` // the id that its ranks have in common
	Rank    int32   `json:"rank"` // below 0: not known
	Ranks   uint32  `json:"ranks"`
	PID     uint32  `json:"pid"`
	Name    string  `json:"name"` // of the process
	State   string  `json:"state"`
	Done    uint64  `json:"done"` // collectives that it has entered
	SeenNS  int64   `json:"seen_ns"`
	EndedNS int64   `json:"ended_ns,omitempty"` // when the process ended; 0: it lives, or that is not known
	Entries []Entry `json:"entries"`            // the last of them, in their order
}

// Entry is that a rank entered a collective: the Seq-th of its communicator.
type Entry struct {
	Seq    uint64 `json:"seq"`
	Op     string `json:"op"`
	TimeNS int64  `json:"time_ns"`
}
