package testkit

import "ingero/pkg/events"

// Op returns the operation of a name in the catalog. It panics if there is none.
func Op(name string) events.Op {
	op, ok := events.OpByName(name)
	if !ok {
		panic("no operation " + name)
	}
	return op
}

// OpRows returns the catalog's rows of operations.
func OpRows(names ...string) (rows []events.Row) {
	for _, name := range names {
		rows = append(rows, *Op(name).Row())
	}
	return rows
}
