// Package soak holds no code: its test lets ingero trace, for a long time, processes that
// fork, run other programs, die in calls, load libraries late and take each other's numbers,
// while the agent is killed, stopped, short of memory and short of disk; and compares what
// was recorded with what the processes say that they did, and how fast they were with how
// fast they are untraced.
//
// It is a measurement: make measure ONLY=soak runs one minute of it, and
// go test -tags measure -timeout 3h ./test/soak -args -for 2h -clock two hours, in which it
// also sets the machine's clock.
package soak
