// Package track derives state from calls: the memory that a process holds, the device of a call,
// and the state of streams, graphs, communicators and copies.
//
// Calls go in, in the order of their records, and state comes out. The package does no I/O, starts
// no goroutine and reads no clock: times are those of the calls, so a replay gives the same state.
// The effect of a call is a row in effects; the package knows the roles of a call's values
// (events.Role), not their names.
//
// A record comes when its call returns. So a nested call comes before the one around it. If one
// thread frees an address and another allocates it at once, the second record may come first. So an
// allocation at an address that is still held ends the previous one, and a free that began before
// the allocation returned belongs to the previous one.
//
// All tables are bounded, and anything beyond the limits is counted. A memory ledger says whether
// it is exact, and if not, why. Package session calls this package, from one goroutine.
package track
