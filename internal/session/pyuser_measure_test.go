//go:build measure

package session_test

import (
	"testing"

	"ingero/internal/testkit"
)

// How often the functions that the agent reads of a thread that runs on are those of the
// call.
func TestStacksFromUserSpaceInTime(t *testing.T) {
	right, of := stacksFromUserSpace(t, testkit.PythonVersion(t))
	testkit.Measured(t, "right", 100*float64(right)/float64(of), "%", testkit.Higher)
}
