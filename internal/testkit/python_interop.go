//go:build interop

package testkit

import "testing"

// PythonVersions are those whose stacks a test reads: each that ingero knows. Tests without
// the build tag interop read those of python3.
func PythonVersions(testing.TB) []string { return pythons }
