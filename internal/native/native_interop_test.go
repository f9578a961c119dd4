//go:build interop

package native

import "testing"

// The stack of a program built by g++ equals a debugger's, too.
func TestResolveProgramsOfGCC(t *testing.T) { resolve(t, "g++") }
