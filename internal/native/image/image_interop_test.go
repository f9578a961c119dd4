//go:build interop

package image

import "testing"

// What g++ makes of C++ is found as well as what clang makes of it.
func TestFindInProgramsOfGCC(t *testing.T) {
	findIn(t, "g++", "testdata/program.cc")
}
