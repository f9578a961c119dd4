// Package mute decides which chains a report shows: chains of the minimum severity or more, of
// enabled rules, without an active silence. It returns hidden chains with the reason, so that a
// report can count them.
//
// The package is pure. Commands that show chains call it.
package mute
