package main

import (
	"fmt"
	"strings"

	"ingero/pkg/events"
)

const operationsHead = `# Operations

<!-- Generated from pkg/events/catalog.go by make docs. -->

Every function that ingero traces, by source. A call keeps the values under
"Kept", in this order: ` + "`*p`" + ` is what p points to when the call returns, ` + "`a*b`" + ` a
product, ` + "`p+8`" + ` the 64 bits in memory 8 bytes after p, ` + "`x|y|z`" + ` three numbers
packed into one, ` + "`=3`" + ` a constant. "Tag" is one more value of 32 bits. All symbols
that a library exports are probed. A function marked "entry only" calls back
into the program, so its return is not watched: it is counted, not timed.
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
			fmt.Fprintf(&b, "\n## %s\n\n| number | name | class | library | symbols | parameters | kept | tag |\n|---|---|---|---|---|---|---|---|\n", s)
		}
		class := r.Class.String()
		if r.EntryOnly {
			class += ", entry only"
		}
		fmt.Fprintf(&b, "| %#04x | %s | %s | %s | %s | %s | %s | %s |\n", uint16(r.Op), cell(r.Name), class, r.Lib,
			cell(r.AllSymbols()...), cell(r.Params), cell(r.Keep...), cell(r.Tag))
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
