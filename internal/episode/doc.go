// Package episode follows chains over time: when one begins to cost something, when it changes, and
// when it is over. A chain stays in the ticks for minutes, and its figures cover the last minute.
// Readers want one event when it begins, few while it lasts, and one with the total when it is
// over.
//
// The package is pure: its time is the ticks', and the same ticks give the same episodes. The
// chains in the ticks bound its memory. Package session calls it, from one goroutine.
package episode
