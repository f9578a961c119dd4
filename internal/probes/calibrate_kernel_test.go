package probes

import "testing"

// Where it cannot be tried, a return probe counts as harmful on kernels that may kill at it.
func TestMayHarm(t *testing.T) {
	for _, tt := range []struct {
		arch, release string
		want          bool
	}{
		{"amd64", "6.11.0-29-generic", true},
		{"amd64", "7.0.1", true},
		{"amd64", "6.8.0-31-generic", false},
		{"amd64", "5.14.0-503.el9.x86_64", false},
		{"amd64", "", true},
		{"arm64", "6.12.1", false},
	} {
		if got := mayHarm(tt.arch, tt.release); got != tt.want {
			t.Errorf("%s %s: %v", tt.arch, tt.release, got)
		}
	}
}
