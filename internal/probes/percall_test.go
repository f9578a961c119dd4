package probes

import "testing"

// The time per call is right even if the program was preempted in most of its batches.
func TestPerCall(t *testing.T) {
	got, err := perCall([]byte(`{"program":"calib","calls":3000,"best_ps":1936000,"median_ps":269758000}`))
	if err != nil || got != 1936 {
		t.Errorf("got %d ns, %v, want 1936", got, err)
	}
	if _, err := perCall([]byte("killed")); err == nil {
		t.Error("what is no JSON has no error")
	}
}
