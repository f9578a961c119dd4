package main

import (
	"fmt"
	"strings"

	"ingero/pkg/events"
)

const operationsHead = `# Operations

<!-- Generated from pkg/events/catalog_*.go by make docs. -->

Every function that ingero traces, by source. A call keeps the values under
"Kept", in this order: ` + "`*p`" + ` is what p points to when the call returns, ` + "`*p+8`" + ` what lies
8 bytes further, ` + "`a*b`" + ` a product, ` + "`p+8`" + ` the 64 bits in memory 8 bytes after p (` + "`:int`" + ` the
32 bits), ` + "`p+8:volume`" + ` the product of three such values, ` + "`x|y|z`" + ` three numbers packed
into one, ` + "`x|y`" + ` two, ` + "`=3`" + ` a constant. What stands before a colon is what the value is:
bytes, an address (ptr), a stream, a communicator (comm). "Tag" is one more value of 32 bits.

All symbols that a library exports are probed. ` + "`f@12-`" + ` counts from version 12 of the library
on, ` + "`f@-11`" + ` up to 11: the parameters of f changed. A function marked "entry only" calls
back into the program, or returns nothing that could be a result, so its return is not
watched: it is counted, not timed. Of one marked "text" the name that it is given is
recorded. A result after "pending" is no failure.

Of some functions every call has a record of its own, whatever is left out to spare the traced
processes ([overhead.md](../design/overhead.md)): "recorded always" says why. Of the others a call that
failed, or that took 100 us or more, has one.
`

// operations renders the catalog.
func operations() string {
	var b strings.Builder
	b.WriteString(operationsHead)
	var source events.Source
	for i := range events.Catalog {
		r := &events.Catalog[i]
		if s := r.Op.Source(); s != source {
			source = s
			fmt.Fprintf(&b, "\n## %s\n\n| number | name | class | library | symbols | parameters | kept | tag | recorded always |\n|---|---|---|---|---|---|---|---|---|\n", s)
		}
		class, symbols := r.Class.String(), r.Symbols
		if len(symbols) == 0 {
			symbols = []string{r.Name}
		}
		if r.EntryOnly {
			class += ", entry only"
		}
		if r.Text {
			class += ", text"
		}
		if r.Pending != 0 {
			class += fmt.Sprintf(", pending %d", r.Pending)
		}
		fmt.Fprintf(&b, "| %#04x | %s | %s | %s | %s | %s | %s | %s | %s |\n", uint16(r.Op), cell(r.Name), class, r.Lib,
			cell(symbols...), cell(r.Params), cell(r.Keep...), cell(r.Tag), r.Always())
	}
	return b.String()
}

// cell renders values as code in a table's cell.
func cell(values ...string) string {
	var out []string
	for _, v := range values {
		if v != "" {
			out = append(out, "`"+strings.ReplaceAll(v, "|", `\|`)+"`")
		}
	}
	return strings.Join(out, " ")
}
