// Package events defines ingero's public data types: operations, the catalog of traced functions,
// and the record of a call.
//
// It imports only the standard library, does no I/O, and is used by every other package. To trace
// one more function, add one row to [Catalog]: symbols, argument slots, units, documents and tests
// follow from it.
package events
