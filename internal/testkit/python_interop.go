//go:build interop

package testkit

import "testing"

// PythonVersions returns the versions that a test reads: all that ingero supports. Without the
// build tag interop it is that of python3.
func PythonVersions(testing.TB) []string { return pythons }
