// Package soak holds no code: its test lets ingero trace, for a long time, processes that
// fork, run other programs, die in calls, load libraries late and take each other's numbers,
// while the agent is killed, stopped, short of memory and short of disk; and compares what
// was recorded with what the processes say that they did, and how fast they were with how
// fast they are untraced.
//
// It is a measurement: go test -tags measure ./test/soak takes five minutes in CI, else
// one; make soak is the long run.
package soak
