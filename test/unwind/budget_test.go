package unwind

import "testing"

// The verifier processes only a small part of its limit (1 M instructions), as much for a stack of
// 64 frames as for one. The test detects growth.
func TestVerifier(t *testing.T) {
	w := open(t, options{})
	for name, limit := range map[string]uint32{"walk_entry": 12_000, "walk_return": 12_000, "walk_fork": 100} {
		info, err := w.programs[name].Info()
		if err != nil {
			t.Fatal(err)
		}
		n, ok := info.VerifiedInstructions()
		if !ok || n > limit {
			t.Errorf("%s: %d instructions verified, budgeted %d", name, n, limit)
		}
		t.Logf("%s: %d instructions verified", name, n)
	}
}
