package testkit

import (
	"testing"
	"time"
)

// patience is how long a test waits for a condition. A test that passes never
// waits for it, so it is generous: a loaded machine must not fail a test.
const patience = 30 * time.Second

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
