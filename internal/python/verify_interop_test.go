//go:build interop

package python

import "testing"

// What an interpreter has in its memory is known of each version, too.
func TestEachPythonInside(t *testing.T) {
	t.Run("Lines", TestLines)
	t.Run("LastHolder", TestLastHolder)
	t.Run("OnlyItsOwnOffsetsFit", TestOnlyItsOwnOffsetsFit)
	t.Run("FindInConstructor", TestFindInConstructor)
	t.Run("DWARF", TestDWARF)
	t.Run("Prober", TestProber)
}
