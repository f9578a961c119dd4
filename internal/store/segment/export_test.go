package segment

import "testing"

// Record returns a log of n seconds with calls calls in each.
func Record(t testing.TB, n, calls int) []byte { return record(t, n, calls).bytes }

// SampleSession returns the session of recorded logs.
func SampleSession() Session { return testSession() }
