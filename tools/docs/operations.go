package main

import (
	"fmt"
	"strings"

	"ingero/pkg/events"
)

const operationsHead = `# Operations

<!-- Generated from pkg/events/catalog_*.go by make docs. -->

For people who ask what ingero sees of a program: every function that it traces, by source.

The column "kept" lists the values that the record of a call keeps, in this order:

| notation | value |
|---|---|
| ` + "`*p`" + ` | what p points to when the call returns |
| ` + "`*p+8`" + ` | what lies 8 bytes after p when the call returns |
| ` + "`a*b`" + ` | the product of a and b |
| ` + "`p+8`" + ` | the 64 bits in memory 8 bytes after p (` + "`:int`" + `: the 32 bits there) |
| ` + "`p+8:volume`" + ` | the product of three such values |
| ` + "`x\\|y\\|z`" + `, ` + "`x\\|y`" + ` | three or two numbers packed into one |
| ` + "`=3`" + ` | a constant |

The word before a colon is the kind of the value: bytes, an address (ptr), a stream, a communicator (comm).
"Tag" is one more value of 32 bits.

ingero probes all symbols that a library exports. ` + "`f@12-`" + ` applies from version 12 of the library,
` + "`f@-11`" + ` up to version 11: the parameters of f changed. A function marked "entry only" calls
back into the program, or does not return a result, so ingero does not trace its return: its calls
are counted, not timed. For a function marked "text", ingero records the name passed to it.
A result after "pending" is not a failure.

Some functions have a record for every call, even while ingero sheds work to lower its overhead
([overhead.md](../design/overhead.md)): "recorded always" gives the reason. For all other functions, a call
has a record if it failed or took 100 us or more.
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
