package testkit

import (
	"testing"
	"time"
)

// patience is how long a test waits for a condition, a child's line or the end of a process. It is
// the only such limit. A passing test does not use it up: it only ends a test that would hang, and
// makes no claim about speed. 2 minutes are some 100 times what the slowest condition takes on a
// machine that several runs share. It is well below the 10 minutes after which go test ends the
// process without naming a condition.
const patience = 2 * time.Minute

// Eventually waits until cond is true, and fails the test if that takes too long. what completes
// the sentence "timed out waiting for ...".
func Eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	if !poll(patience, cond) {
		t.Fatalf("timed out after %v waiting for %s", patience, what)
	}
}

// poll calls cond until it is true or limit has passed, and returns its last result.
func poll(limit time.Duration, cond func() bool) bool {
	end := time.Now().Add(limit)
	for pause := time.Millisecond; !cond(); pause = min(pause*3/2, 50*time.Millisecond) {
		if time.Now().After(end) {
			return cond()
		}
		<-time.After(pause)
	}
	return true
}

// Receive waits until ch delivers a value or is closed, and fails the test if that takes too long.
// what completes the sentence "timed out waiting for ...".
func Receive[T any](t testing.TB, what string, ch <-chan T) (v T) {
	t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case v = <-ch:
	case <-late.C:
		t.Fatalf("timed out after %v waiting for %s", patience, what)
	}
	return v
}
