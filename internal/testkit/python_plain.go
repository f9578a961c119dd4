//go:build !interop

package testkit

import "testing"

// PythonVersions are those whose stacks a test reads: that of python3. Tests with the build
// tag interop read those of each version that ingero knows.
func PythonVersions(t testing.TB) []string {
	t.Helper()
	return []string{PythonVersion(t)}
}
