package ledger

import (
	"math/bits"
	"strings"

	"ingero/pkg/events"
)

// rank is how well an operation closes a step: not at all, as a fallback, or by definition. The
// highest rank among a thread's operations closes its steps.
type rank uint8

const (
	rankNone rank = iota
	rankCopy      // a synchronous copy
	rankSync
)

// opTable has the properties of each operation for the hot path, without a map.
type opTable struct {
	row []opFacts // by Op, up to the last one of the catalog
}

type opFacts struct {
	rank   rank
	sized  bool // Args[0] is a number of bytes, or elements
	launch bool
	copies bool
	marks  Marks
}

func newOpTable() opTable {
	var t opTable
	for i := range events.Catalog {
		r := &events.Catalog[i]
		if n := int(r.Op) + 1; n > len(t.row) {
			t.row = append(t.row, make([]opFacts, n-len(t.row))...)
		}
		f := &t.row[r.Op]
		f.launch = r.Class == events.ClassLaunch
		f.copies = r.Class == events.ClassMemcpy
		f.marks = marksOf(r)
		switch r.Class {
		case events.ClassSync:
			f.rank = rankSync
		case events.ClassMemcpy:
			if !strings.Contains(r.Name, "Async") {
				f.rank = rankCopy
			}
			fallthrough
		case events.ClassMalloc, events.ClassMemset:
			f.sized = r.Has(events.RoleBytes)
		}
	}
	return t
}

func (t *opTable) facts(op events.Op) opFacts {
	if int(op) < len(t.row) {
		return t.row[op]
	}
	return opFacts{}
}

// size returns the size class of a call: the bits in its number of bytes.
func (t *opTable) size(c *events.Call) uint8 {
	if !t.facts(c.Op).sized {
		return 0
	}
	n, _ := c.Value(events.RoleBytes)
	return uint8(bits.Len64(n))
}
