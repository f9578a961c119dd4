package unwind

import "testing"

// What the verifier has to look at is a small part of what it is ready to (1 M), and no
// more for a stack of 64 frames than for one. It may not grow unseen.
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
