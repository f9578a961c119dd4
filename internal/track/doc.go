// Package track keeps what follows from calls: the memory that a process has
// allocated and not freed, which device a call is for, and what streams, graphs,
// communicators and copies are at.
//
// Calls go in, in the order in which their records come, and state comes out. It
// reads nothing, starts nothing and asks no clock: times are those of the calls, so
// that a replay comes to the same state. What a call does to the state is a row in
// effects; of what a call carries it knows the roles (events.Role), not the names.
//
// A record comes when its call returns. So a nested call comes before the one around
// it, and where one thread frees an address and another is given it at once, the
// second may come first. An allocation that fills an address which is still held is
// therefore the end of the one before, and a free that began before the allocation
// returned was not of it.
//
// All is bounded, and what there is no room for is counted. A ledger of memory says
// whether it is exact, and if not, why. The session calls it, from one goroutine.
package track
