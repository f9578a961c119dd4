package mcp

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strings"

	"ingero/internal/wire"
)

// answer is a tool's result. Facts and rows have the values of the tool's columns, in order; nil is
// unknown.
type answer struct {
	lead    string // one or two words, before everything else
	facts   []any
	columns []column // of a statement's result; nil: the tool's
	rows    [][]any
	more    int      // rows after these, for the cursor
	notes   []string // caveats for the reader
}

// Form is the requested form of an answer.
type Form struct {
	TSC       *bool  `json:"tsc,omitempty" jsonschema:"set to false for answers in sentences"`
	MaxTokens int    `json:"max_tokens,omitempty" jsonschema:"maximum size of the answer, 200-8000 tokens; default 2000"`
	Cursor    string `json:"cursor,omitempty" jsonschema:"the value of next in the previous answer, for more rows"`
}

func (f *Form) form() *Form { return f }

// telegraphic reports whether the answer is in telegraphic notation.
func (f *Form) telegraphic() bool { return f.TSC == nil || *f.TSC }

// budget returns the maximum tokens of the answer.
func (f *Form) budget(usual int) int {
	if f.MaxTokens == 0 {
		return usual
	}
	return min(max(f.MaxTokens, leastTokens), mostTokens)
}

// question returns a hash of a tool and its arguments without the form. A cursor belongs to it.
func question(tool string, in any, f *Form) (uint64, error) {
	was := *f
	*f = Form{}
	text, err := json.Marshal(in)
	*f = was
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s %s", tool, text) // cannot fail
	return h.Sum64(), err
}

func cursorAt(row int, total uint64) string {
	b := binary.AppendUvarint(nil, uint64(row))
	return base64.RawURLEncoding.EncodeToString(binary.LittleEndian.AppendUint64(b, total))
}

// row returns the row from which a cursor continues.
func (f *Form) row(total uint64) (int, error) {
	if f.Cursor == "" {
		return 0, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(f.Cursor)
	n, used := binary.Uvarint(b)
	if err != nil || used <= 0 || len(b) != used+8 || n > 1<<30 || binary.LittleEndian.Uint64(b[used:]) != total {
		return 0, &Refusal{"the cursor belongs to another call", "repeat the other arguments, or omit the cursor"}
	}
	return int(n), nil
}

// widths are the text bounds to try: long texts are truncated before an answer exceeds its budget.
var widths = [...]int{maxText, 80, 24, 8}

// maxShort bounds a text in telegraphic notation, in bytes.
const maxShort = 160

// write renders both forms of a part of an answer.
func (a *answer) write(t *tool, f *Form, total uint64) (text string, out *wire.Reply, err error) {
	from, err := f.row(total)
	if err != nil {
		return "", nil, err
	}
	if from > len(a.rows) {
		return "", nil, &Refusal{"the answer is now shorter than the position of the cursor", "call the tool again without the cursor"}
	}
	budget := f.budget(t.budget())
	for i, most := range widths {
		p := a.page(t, f, most, budget)
		whole := p.fill(from, total)
		if whole || i == len(widths)-1 {
			return p.text.String(), &p.out, nil
		}
	}
	return "", nil, nil // unreachable: the last width is always accepted
}

// page is an answer under construction.
type page struct {
	*answer
	tool    *tool
	columns []column
	short   bool
	most    int // bytes per text
	budget  int
	unused  []bool // columns without any value
	day     string // "2026-11-22T" if all times are of that day in UTC: telegraphic notation has it once
	text    strings.Builder
	out     wire.Reply
	spent   [2]int // tokens of the text, and of the structured content
}

// reserve is the budget for the line with the cursor.
const reserve = 40

func (a *answer) page(t *tool, f *Form, most, budget int) *page {
	p := &page{answer: a, tool: t, columns: t.columns, short: f.telegraphic(), most: most, budget: budget - reserve}
	if a.columns != nil {
		p.columns = a.columns
	}
	p.unused = make([]bool, len(p.columns))
	for i := range p.columns {
		if p.unused[i] = p.columns[i].kind != free; p.columns[i].wide {
			continue
		}
		for _, row := range p.rows {
			if v := value(row[i]); v != nil && v != "" {
				p.unused[i] = false
				break
			}
		}
	}
	if p.short {
		p.day = p.oneDay()
	}
	return p
}

// oneDay returns the beginning of all times if they are of one day, else "".
func (p *page) oneDay() (day string) {
	same := true
	see := func(c *column, v any) {
		const date = len("2006-01-02T")
		if c.kind != moment {
			return
		}
		if text := c.short(value(v), maxText); len(text) > date {
			same = same && (day == "" || day == text[:date])
			day = text[:date]
		}
	}
	for i, v := range p.facts {
		if c := &p.tool.facts[i]; !p.hides(c) {
			see(c, v)
		}
	}
	for _, row := range p.rows {
		for i := range p.columns {
			if !p.unused[i] {
				see(&p.columns[i], row[i])
			}
		}
	}
	if !same {
		return ""
	}
	return day
}

// hides reports whether telegraphic notation leaves a fact out.
func (p *page) hides(c *column) bool { return c.wide || p.tool.quiet && c.kind == moment }

// brief formats a value in telegraphic notation.
func (p *page) brief(c *column, v any) string {
	text := c.short(v, p.width())
	if c.kind == moment {
		text = strings.TrimPrefix(text, p.day)
	}
	return text
}

// width bounds a text in telegraphic notation; sentences have more room.
func (p *page) width() int { return min(p.most, maxShort) }

// fill writes the rows that fit, and reports whether the first one did.
func (p *page) fill(from int, total uint64) bool {
	p.head(from)
	n := from
	for ; n < len(p.rows); n++ {
		row, line := p.row(p.rows[n], n)
		b, _ := json.Marshal(row) // plain values
		cost := [2]int{tokens(line) + 1, tokens(string(b)) + 1}
		if max(p.spent[0]+cost[0], p.spent[1]+cost[1]) > p.budget {
			if n == from && p.most > widths[len(widths)-1] {
				return false
			}
			if n > from {
				break
			}
		}
		p.spent[0], p.spent[1] = p.spent[0]+cost[0], p.spent[1]+cost[1]
		p.text.WriteString(line + "\n")
		p.out.Rows = append(p.out.Rows, row)
	}
	if left := len(p.rows) - n + p.more; left > 0 {
		p.out.Next = cursorAt(n, total)
		fmt.Fprintf(&p.text, p.form("more=%d next=%s\n", "There are %d more rows. To read them, repeat the call with this cursor: %s\n"), left, p.out.Next)
	}
	return p.spent[0] <= p.budget && p.spent[1] <= p.budget || p.most == widths[len(widths)-1]
}

func (p *page) form(short, long string) string {
	if p.short {
		return short
	}
	return long
}

// head writes everything before the rows.
func (p *page) head(from int) {
	p.out.Facts = map[string]any{}
	var line []string
	if p.lead != "" {
		line = append(line, p.form(p.lead, strings.ToUpper(p.lead[:1])+p.lead[1:]+"."))
	}
	for i, v := range p.facts {
		if v = value(v); v == nil || v == "" {
			continue
		}
		c := &p.tool.facts[i]
		p.out.Facts[c.name] = c.plain(v, p.most)
		if p.short && p.hides(c) {
			continue
		}
		if p.short {
			line = append(line, c.tag()+"="+p.brief(c, v))
		} else {
			line = append(line, strings.ToUpper(c.about[:1])+c.about[1:]+": "+c.long(v, p.most)+".")
		}
	}
	if p.short && p.day != "" {
		line = append(line, "date="+strings.TrimSuffix(p.day, "T"))
	}
	if len(line) > 0 {
		p.text.WriteString(strings.Join(line, p.form(" ", "\n")) + "\n")
	}
	for i, n := range p.notes[:min(len(p.notes), 5)] {
		n = printable(n, p.most)
		p.out.Notes = append(p.out.Notes, n)
		if p.short {
			n = printable(n, p.width())
		}
		if p.short && i > 0 {
			continue
		}
		p.text.WriteString(p.form("note=", "Note: ") + `"` + strings.ReplaceAll(n, `"`, "'") + `"` + "\n")
	}
	names, tags := make([]string, len(p.columns)), []string{}
	for i := range p.columns {
		names[i] = p.columns[i].name
		if !p.unused[i] {
			tags = append(tags, p.columns[i].tag())
		}
	}
	if len(p.rows) > 0 {
		p.out.Columns = names
		p.out.Rows = [][]any{}
		if p.short {
			p.text.WriteString(strings.Join(tags, " ") + "\n")
		}
	}
	b, _ := json.Marshal(p.out) // plain values
	p.spent = [2]int{tokens(p.text.String()), tokens(string(b))}
}

// row writes one row.
func (p *page) row(values []any, n int) ([]any, string) {
	row, line := make([]any, len(p.columns)), make([]string, 0, len(p.columns))
	for i := range p.columns {
		c, v := &p.columns[i], value(values[i])
		if v == "" && c.kind != free {
			v = nil
		}
		row[i] = c.plain(v, p.most)
		switch {
		case p.short && p.unused[i]:
		case p.short:
			line = append(line, p.brief(c, v))
		case v != nil:
			line = append(line, c.about+": "+c.long(v, p.most))
		}
	}
	if p.short {
		return row, strings.Join(line, " ")
	}
	return row, fmt.Sprintf("%d. %s.", n+1, strings.Join(line, "; "))
}
