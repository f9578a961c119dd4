package causal

import (
	"path/filepath"
	"strings"
	"testing"
)

// Scenarios of which none is played with shed inputs.
func TestPlainScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/plain/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) {
			t.Parallel()
			read(t, f).check(t)
		})
	}
}
