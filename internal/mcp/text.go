package mcp

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"ingero/internal/explain"
)

// kind is the type of a value.
type kind uint8

// The kinds. Integers are int64.
const (
	words  kind = iota // text, also foreign
	count              // an integer
	nanos              // a duration, ns
	size               // bytes
	share              // from 0 to 1
	number             // with a fraction
	moment             // a time, as RFC 3339 text
	flag
	free // any type, from SQL
)

// column is a fact, or a value of each row.
type column struct {
	name  string // in structured content, and in telegraphic notation
	about string // for sentences, and for the schema
	kind  kind
	wide  bool // in sentences and structured content only: other columns imply it
}

// tag returns the name in telegraphic notation, with the unit.
func (c *column) tag() string {
	if c.kind == nanos || c.kind == size {
		return strings.TrimSuffix(strings.TrimSuffix(c.name, "_ns"), "_bytes")
	}
	return c.name
}

// exact is the largest integer that all JSON parsers represent exactly.
const exact = 1 << 53

// maxText bounds a text, in bytes.
const maxText = 300

// printable makes foreign text safe: one line, without invisible or formatting characters,
// truncated.
func printable(s string, most int) string {
	if len(s) > 4*most { // before the character scan
		s = s[:4*most]
	}
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	if len(s) <= most {
		return s
	}
	cut := max(most-3, 0)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "..."
}

// quoted returns a text for a telegraphic answer: in quotes that it cannot end, unless it is a
// plain name.
func quoted(s string, most int) string {
	s = printable(s, most)
	name := s != "" && len(s) <= 48
	for i := range len(s) {
		c := s[i]
		name = name && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("_./:@+-%", c) >= 0)
	}
	if name {
		return s
	}
	return `"` + strings.ReplaceAll(s, `"`, "'") + `"`
}

// value converts v to a kind's type; nil: unknown.
func value(v any) any {
	switch v := v.(type) {
	case *int64:
		if v == nil {
			return nil
		}
		return *v
	case *uint64:
		if v == nil {
			return nil
		}
		return value(*v)
	case uint64:
		return int64(min(v, 1<<63-1))
	case int:
		return int64(v)
	case uint16:
		return int64(v)
	case uint32:
		return int64(v)
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64()
		return f
	}
	return v
}

// short formats a value in telegraphic notation.
func (c *column) short(v any, most int) string {
	switch v := v.(type) {
	case nil:
		return "-"
	case bool:
		return strconv.FormatBool(v)
	case float64:
		if c.kind == share {
			return strconv.FormatFloat(100*v, 'f', 1, 64) + "%"
		}
		return strconv.FormatFloat(v, 'g', 4, 64)
	case int64:
		switch c.kind {
		case nanos:
			return strings.ReplaceAll(explain.Duration(v), " ", "")
		case size:
			return strings.ReplaceAll(explain.Bytes(v), " ", "")
		}
		return strconv.FormatInt(v, 10)
	case string:
		if t, err := time.Parse(time.RFC3339Nano, v); err == nil && c.kind == moment {
			return t.UTC().Format("2006-01-02T15:04:05.000")
		}
		return quoted(v, most)
	case []byte:
		return quoted(fmt.Sprintf("x'%x'", v[:min(len(v), most/2)]), most)
	}
	return quoted(fmt.Sprint(v), most)
}

// long formats a value for sentences.
func (c *column) long(v any, most int) string {
	switch v := v.(type) {
	case nil:
		return "not known"
	case bool:
		return map[bool]string{true: "yes", false: "no"}[v]
	case float64:
		if c.kind == share {
			return explain.Percent(v)
		}
	case int64:
		switch c.kind {
		case nanos:
			return explain.Duration(v)
		case size:
			return explain.Bytes(v)
		}
	case string:
		if t, err := time.Parse(time.RFC3339Nano, v); err == nil && c.kind == moment {
			return t.UTC().Format("2006-01-02 15:04:05.000 UTC")
		}
		return `"` + strings.ReplaceAll(printable(v, most), `"`, "'") + `"`
	}
	return c.short(v, most)
}

// plain returns a value for structured content.
func (c *column) plain(v any, most int) any {
	switch v := v.(type) {
	case int64:
		if c.kind == free && (v > exact || v < -exact) {
			return strconv.FormatInt(v, 10)
		}
	case string:
		return printable(v, most)
	case []byte:
		return fmt.Sprintf("x'%x'", v[:min(len(v), most/2)])
	}
	return v
}
