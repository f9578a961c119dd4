// Package events defines ingero's public data types: operations, the catalog of traced functions,
// and the record of a call.
//
// It imports only the standard library and does no I/O. To trace one more function, add one row to
// [Catalog]: symbols, argument slots, units, documents and tests follow from the row.
package events
