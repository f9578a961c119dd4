//go:build smoke

package incidents

import "testing"

// More launches are shorter, and those of a fault are longer by the same factor as before.
func TestAtRate(t *testing.T) {
	for _, tt := range []struct {
		script string
		rate   int
		want   string
	}{
		{"copy 65536; launch 20 500; sync; cpu 300", 20_000, "copy 65536; launch 200 50; sync; cpu 300"},
		{"~launch 20 500; !launch 20 800; sync", 1000, "~launch 10 1000; !launch 10 1600; sync"},
		{"launch 30 1000 260; sync", 5000, "launch 30 1000 260; sync"},
	} {
		if got := atRate(tt.script, tt.rate); got != tt.want {
			t.Errorf("%q at %d: got %q, want %q", tt.script, tt.rate, got, tt.want)
		}
	}
}
