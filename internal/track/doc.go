// Package track derives state from calls: the memory that a process holds, the device of a call,
// and the state of streams, graphs, communicators and copies.
//
// The input is calls in the order of their records; the output is state. The package does no I/O, starts
// no goroutine and reads no clock: times are those of the calls, so a replay gives the same state.
// The effect of a call is a row in effects; the package knows the roles of a call's values
// (events.Role), not their names.
//
// The kernel writes a record when its call returns. So the record of a nested call precedes the
// record of its outer call. If one thread frees an address and another thread allocates it at once,
// the record of the allocation may come first. So an allocation at an address in use ends the
// earlier allocation there. A free that began before the new allocation returned freed the earlier
// one.
//
// All tables are bounded, and the package counts what exceeds the limits. A memory ledger says
// whether it is exact, and if not, why. Package session calls this package, from one goroutine.
package track
