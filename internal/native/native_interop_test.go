//go:build interop

package native

import "testing"

// The stack of a program that g++ made is that of a debugger, too.
func TestResolveProgramsOfGCC(t *testing.T) { resolve(t, "g++") }
