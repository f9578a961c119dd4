// Package mute says which chains are shown: those that are grave enough, of rules that
// are on, and that nobody has silenced for a while. It takes none away: what is not shown
// is handed over with the reason, so that whoever shows the rest can say how much that is.
//
// It is pure. Commands that show chains call it.
package mute
