// Package soak contains only a test. For a long time ingero traces processes that fork, exec, die
// in calls, load libraries late and reuse each other's PIDs. Meanwhile the agent is killed,
// stopped, short of memory and short of disk. The test compares the recordings with the processes'
// own reports, and their speed with their untraced speed.
//
// It is a measurement. make measure ONLY=soak runs it for two hours: eight times for 15 minutes, so
// that an interrupted measurement resumes. go test -tags measure -timeout 3h ./test/soak -args -for
// 2h -clock runs it for two hours at a time, and also sets the machine's clock.
package soak
