package export

import (
	"bufio"
	"encoding/json"
	"io"
	"math"
	"strconv"
	"time"

	"ingero/internal/tick"
)

// chrome writes a trace in the Trace Event Format.
type chrome struct {
	w    *bufio.Writer
	b    []byte // buffer
	base int64  // Unix ns; times are relative to it
	any  bool   // an event was written
	seen map[uint64]bool
}

// maxSeen bounds the open arrows.
const maxSeen = 1 << 16

// maxExact is the largest integer that all JSON readers represent exactly.
const maxExact = 1 << 53

// severityColours are colors by the names that viewers know.
var severityColours = map[tick.Severity]string{tick.High: "terrible", tick.Medium: "bad", tick.Low: "olive"}

func newChrome(w io.Writer) *chrome {
	return &chrome{w: bufio.NewWriterSize(w, 1<<16), seen: map[uint64]bool{}}
}

func (c *chrome) begin(at int64) error {
	c.base = at
	c.b = append(c.b[:0], `{"displayTimeUnit":"ns","otherData":{"began":`...)
	c.text(time.Unix(0, at).UTC().Format(time.RFC3339Nano))
	c.b = append(c.b, `,"began_unix_ns":"`...)
	c.b = append(strconv.AppendInt(c.b, at, 10), `"},"traceEvents":[`...)
	return c.flush()
}

func (c *chrome) flush() error {
	_, err := c.w.Write(c.b)
	return err
}

// open begins an object with phase ph.
func (c *chrome) open(ph byte, on *track) {
	c.b = c.b[:0]
	if c.any {
		c.b = append(c.b, ',')
	}
	c.any = true
	c.b = append(append(c.b, "\n{\"ph\":\""...), ph)
	c.b = strconv.AppendInt(append(c.b, `","pid":`...), int64(on.pid), 10)
	c.b = strconv.AppendInt(append(c.b, `,"tid":`...), int64(on.tid), 10)
}

// text appends a JSON string. It replaces invalid UTF-8.
func (c *chrome) text(s string) {
	b, err := json.Marshal(s)
	if err != nil { // cannot fail for a string
		b = []byte(`""`)
	}
	c.b = append(c.b, b...)
}

func (c *chrome) field(name, text string) {
	c.b = append(append(append(c.b, `,"`...), name...), `":`...)
	c.text(text)
}

// time appends microseconds with three decimals.
func (c *chrome) time(name string, ns int64) {
	c.b = append(append(append(c.b, `,"`...), name...), `":`...)
	if ns < 0 {
		c.b, ns = append(c.b, '-'), -ns
	}
	c.b = append(strconv.AppendInt(c.b, ns/1000, 10), '.')
	c.b = append(c.b, byte('0'+ns/100%10), byte('0'+ns/10%10), byte('0'+ns%10))
}

func (c *chrome) track(t *track) error {
	what := ""
	switch t.kind {
	case trackNode, trackProcess:
		what = "process_name"
	case trackThread:
		what = "thread_name"
	default: // events name it
		return nil
	}
	c.open('M', t)
	c.field("name", what)
	c.b = append(c.b, `,"args":{"name":`...)
	c.text(t.name)
	c.b = append(c.b, '}', '}')
	if err := c.flush(); err != nil || t.kind != trackProcess || t.rank < 0 {
		return err
	}
	c.open('M', t)
	c.field("name", "process_sort_index")
	c.b = append(strconv.AppendInt(append(c.b, `,"args":{"sort_index":`...), int64(t.rank), 10), '}', '}')
	return c.flush()
}

func (c *chrome) event(m *mark) error {
	switch m.kind {
	case markEnd: // the begin event has its duration
		return nil
	case markCount:
		c.open('C', m.on)
		c.field("name", m.name)
		c.time("ts", m.at-c.base)
		c.b = append(c.b, `,"args":{"value":`...)
		if value := m.value; math.IsInf(value, 0) || math.IsNaN(value) {
			c.b = append(c.b, "null"...)
		} else {
			c.b = strconv.AppendFloat(c.b, value, 'f', -1, 64)
		}
		c.b = append(c.b, '}', '}')
		return c.flush()
	case markInstant:
		c.open('i', m.on)
		c.b = append(c.b, `,"s":"`...)
		c.b = append(c.b, map[bool]byte{true: 't', false: 'p'}[m.on.kind == trackThread], '"')
		if colour := severityColours[m.severity]; colour != "" {
			c.field("cname", colour)
		}
	default:
		c.open('X', m.on)
		c.time("dur", m.until-m.at)
	}
	c.time("ts", m.at-c.base)
	c.field("name", m.name)
	category := m.categories[0]
	if m.categories[1] != "" {
		category += "," + m.categories[1]
	}
	c.field("cat", category)
	c.args(m.args)
	c.b = append(c.b, '}')
	if err := c.flush(); err != nil || m.kind == markInstant { // arrows go between slices
		return err
	}
	return c.flows(m)
}

func (c *chrome) args(args []arg) {
	if len(args) == 0 {
		return
	}
	c.b = append(c.b, `,"args":{`...)
	for i := range args {
		a := &args[i]
		if i > 0 {
			c.b = append(c.b, ',')
		}
		c.text(a.name)
		c.b = append(c.b, ':')
		switch {
		case a.kind == argText:
			c.text(a.text)
		case a.kind == argHandle:
			c.b = append(strconv.AppendUint(append(c.b, `"0x`...), uint64(a.number), 16), '"')
		case uint64(a.number) > maxExact: // readers would round it
			c.b = append(strconv.AppendUint(append(c.b, '"'), uint64(a.number), 10), '"')
		default:
			c.b = strconv.AppendInt(c.b, a.number, 10)
		}
	}
	c.b = append(c.b, '}')
}

// flows writes the arrows from and to a slice.
func (c *chrome) flows(m *mark) error {
	for _, id := range m.out {
		ph := byte('t')
		if !c.seen[id] {
			if len(c.seen) >= maxSeen { // unfinished arrows restart
				clear(c.seen)
			}
			c.seen[id], ph = true, 's'
		}
		if err := c.arrow(ph, id, m); err != nil {
			return err
		}
	}
	for _, id := range m.in {
		delete(c.seen, id)
		if err := c.arrow('f', id, m); err != nil {
			return err
		}
	}
	return nil
}

func (c *chrome) arrow(ph byte, id uint64, m *mark) error {
	c.open(ph, m.on)
	c.time("ts", m.at-c.base)
	c.b = strconv.AppendUint(append(c.b, `,"bp":"e","id":`...), id, 10)
	c.b = append(c.b, `,"name":"launch to synchronise","cat":"flow"}`...)
	return c.flush()
}

func (c *chrome) close() error {
	c.b = append(c.b[:0], "\n]}\n"...)
	if err := c.flush(); err != nil {
		return err
	}
	return c.w.Flush()
}
