// Package rollcall tells which rank of an NCCL communicator has not entered a
// collective that others wait in, and what it does instead.
//
// Ranks are told apart by the communicator's id, which calls that were seen carry
// (see package track), and their collectives by their number since it was made. So
// nothing is said of communicators that were made before the trace began, nor of a
// rank some of whose calls have no record: which of its collectives is which is not
// known. Of ranks on other machines, or that are not traced, nothing is known either.
//
// A rank that lives is missing when another has entered a collective for a second, and
// for four times what the ranks were usually apart: not in the same tick, as its record
// may be on its way. One that has ended is missing as soon as another enters what it
// did not, and half a second after a signal killed it.
//
// The package is pure: it reads nothing, starts nothing and asks no clock. The session
// calls it, from one goroutine, with the states of package track.
package rollcall
