//go:build measure

package session_test

import (
	"testing"

	"ingero/internal/testkit"
)

// Measures how often the Python stack that the agent reads of a running thread is the one of its
// call.
func TestStacksFromUserSpaceInTime(t *testing.T) {
	right, of := stacksFromUserSpace(t, testkit.PythonVersion(t))
	testkit.Measured(t, "right", 100*float64(right)/float64(of), "%", testkit.Higher)
}
