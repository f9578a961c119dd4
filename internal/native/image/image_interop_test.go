//go:build interop

package image

import "testing"

// C++ compiled by g++ resolves as well as C++ compiled by clang.
func TestFindInProgramsOfGCC(t *testing.T) {
	findIn(t, "g++", "testdata/program.cc")
}
