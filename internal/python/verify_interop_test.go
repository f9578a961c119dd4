//go:build interop

package python

import "testing"

// The tests of an interpreter's memory pass for every version.
func TestEachPythonInside(t *testing.T) {
	t.Run("Lines", TestLines)
	t.Run("LastHolder", TestLastHolder)
	t.Run("OnlyItsOwnOffsetsFit", TestOnlyItsOwnOffsetsFit)
	t.Run("FindInConstructor", TestFindInConstructor)
	t.Run("DWARF", TestDWARF)
	t.Run("Prober", TestProber)
}
