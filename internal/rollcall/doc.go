// Package rollcall finds the ranks of an NCCL communicator that have not entered a collective in
// which others wait, and what they do instead.
//
// Ranks are matched by the communicator's id, which recorded calls carry (see package track), and
// their collectives by number since the communicator was made. So there are no results for
// communicators from before the trace, nor for a rank with calls that have no record: its
// collectives cannot be numbered. Ranks on other machines, or untraced ones, are unknown.
//
// A living rank is missing when another rank has been in a collective for a second, and for four
// times the ranks' usual spread. The package reports it only in a later tick, since its record may
// still arrive. A rank that has ended is missing 200 ms after another rank enters a collective
// without it. A rank that a signal killed is missing half a second later, even if no other rank has
// entered.
//
// The package is pure: it reads nothing, starts nothing and uses no clock. The session calls it,
// from one goroutine, with the states of package track.
package rollcall
