package mcp

import (
	"slices"
	"testing"
)

// A diagnosis has the first note, and all notes about causes that cannot be found.
func TestLimits(t *testing.T) {
	off := "From 12:03:05 UTC on disks are not watched; causes not reported since then, or only in part: swap-in."
	old := "From 12:03:05 UTC on disks are not watched; causes that are not told since, or only in part: swap-in."
	for _, tt := range []struct{ notes, want []string }{
		{nil, nil}, {[]string{"a", "b"}, []string{"a"}}, {[]string{"a", "b", off}, []string{"a", off}}, {[]string{"a", old}, []string{"a", old}}, {[]string{off}, []string{off}},
	} {
		if got := limits(tt.notes); !slices.Equal(got, tt.want) {
			t.Errorf("limits of %q: %q, want %q", tt.notes, got, tt.want)
		}
	}
}
