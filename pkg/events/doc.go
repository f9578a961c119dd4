// Package events is ingero's public vocabulary: operations, the catalog of
// traced functions, and the call that one traced function makes of itself.
//
// It imports the standard library only, does no input or output, and is used
// by every other package. To trace one more function is to add one row to
// [Catalog]: symbols, argument slots, units, documents and tests follow from it.
package events
