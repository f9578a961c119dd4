//go:build interop

package proc

import (
	"errors"
	"os"
	"testing"

	"ingero/internal/testkit"
)

// FindSymbols finds all API functions that the real libraries export.
func TestFindSymbolsInNVIDIALibraries(t *testing.T) {
	for _, path := range append(testkit.NVIDIALibraries(t, "libcudart.so"), testkit.NVIDIALibraries(t, "libcuda.so")...) {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		s, err := FindSymbols(f)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		want := stemOf([]byte(path))
		if s.library() != want || len(s.Functions) < 300 {
			t.Errorf("%s: %d functions, most of %v, want 300 of %v", path, len(s.Functions), s.library(), want)
		}
	}
}
