package query

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"ingero/internal/store/segment"
	"ingero/internal/tick"
)

// A GPU's state has the reasons for low clocks as they were recorded.
func TestGPUStates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	x := record(t, path, segment.Session{ID: "s"})
	want := []string{"software power cap", "idle"}
	last := x.tick(true)
	last.GPUs[0].Throttle = want
	if err := errors.Join(x.db.Tick(last), x.db.Close()); err != nil {
		t.Fatal(err)
	}
	var got []string
	err := openReader(t, path).GPUStates(t.Context(), Filter{}, func(g *tick.GPU) error {
		got = g.Throttle
		return nil
	})
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("reasons %q, want %q (%v)", got, want, err)
	}
}
