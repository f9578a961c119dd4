package testkit

import (
	"testing"
	"time"
)

// patience is how long a test waits for a condition, a line of a child or the end of what
// it started. It is the only such limit, and the same for all. A test that passes does not
// wait for it. It only ends a test that would hang, so it says nothing about how fast
// anything must be: 2 minutes are some 100 times what the slowest condition takes on a
// machine whose CPUs and disk are shared by several such runs. It is well below the
// 10 minutes after which go test ends the process and names no condition.
const patience = 2 * time.Minute

// Eventually waits until cond is true and fails the test if that takes too
// long. What completes the sentence "timed out waiting for ...".
func Eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	if !poll(patience, cond) {
		t.Fatalf("timed out after %v waiting for %s", patience, what)
	}
}

// poll asks cond until it is true or limit has passed, and returns its last
// answer.
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

// Receive waits until ch delivers a value or is closed, and fails the test if that takes too
// long. What completes the sentence "timed out waiting for ...".
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
