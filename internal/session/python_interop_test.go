//go:build interop

package session_test

import (
	"testing"

	"ingero/internal/testkit"
)

// eachPython runs a test with each supported version.
func eachPython(t *testing.T, run func(t *testing.T, version string)) {
	for _, version := range testkit.PythonVersions(t) {
		t.Run(version, func(t *testing.T) { run(t, version) })
	}
}

func TestPythonStacksOfEachVersion(t *testing.T) { eachPython(t, pythonStacks) }

func TestStacksFromUserSpaceOfEachVersion(t *testing.T) {
	eachPython(t, func(t *testing.T, version string) {
		t.Helper()
		stacksFromUserSpace(t, version)
	})
}

func TestGILOfEachVersion(t *testing.T) {
	eachPython(t, func(t *testing.T, version string) {
		for _, how := range []string{"sleep", "sync"} {
			t.Run(how, func(t *testing.T) { nameGILHolder(t, testkit.NeedPython(t, version), how) })
		}
	})
}
