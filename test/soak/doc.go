// Package soak contains only a test. For a long time ingero traces processes that fork, exec, die
// in calls, load libraries late and reuse each other's numbers, while the agent is killed, stopped,
// short of memory and short of disk. The test compares the recordings with the processes' own
// reports, and their speed with their untraced speed.
//
// It is a measurement: make measure ONLY=soak runs one minute of it, and go test -tags measure
// -timeout 3h ./test/soak -args -for 2h -clock two hours, in which it also sets the machine's
// clock.
package soak
