package retention

import (
	"testing"

	"ingero/internal/store/segment"
)

// A segment being sealed counts until sealing ends, even after it was deleted.
func TestRoomOfSealing(t *testing.T) {
	one, two := segment.Info{Name: "one", Bytes: 100}, segment.Info{Name: "two", Bytes: 10}
	sealed := segment.Info{Name: "old", Bytes: 1000, Sealed: true}
	s := &Segments{All: []Segment{{Info: sealed}, {Info: one}, {Info: two}}}
	for i, want := range []int64{110, 110, 110, 100} {
		switch i {
		case 1:
			s.Sealing = one
		case 2: // pruned: all but the newest
			s.All = s.All[2:]
		case 3:
			s.All = nil
		}
		if got := s.unsealed(); got != want {
			t.Errorf("step %d: %d bytes, want %d", i, got, want)
		}
	}
	if s.Sealing = (segment.Info{}); s.unsealed() != 0 {
		t.Errorf("when it is over: %d bytes", s.unsealed())
	}
}
