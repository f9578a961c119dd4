//go:build !interop

package testkit

import "testing"

// PythonVersions returns the versions that a test reads: that of python3. With the build tag
// interop it is all versions that ingero supports.
func PythonVersions(t testing.TB) []string {
	t.Helper()
	return []string{PythonVersion(t)}
}
