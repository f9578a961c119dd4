package explain

import (
	"testing"

	"ingero/internal/tick"
)

// A refused message with labels is not a lost record of a call: else a sender could make a trace
// look incomplete.
func TestRefusedLabelsAreNoLostCalls(t *testing.T) {
	drops := []tick.Drop{{Reason: "ring-full", Count: 2}}
	for _, reason := range []string{"label-malformed", "label-denied", "label-sender-ended", "label-no-process", "label-wrong-time", "label-rate", "label-too-many", "label-full", "label-socket"} {
		drops = append(drops, tick.Drop{Reason: reason, Count: 5})
		if DropWords(reason) == reason {
			t.Errorf("%s has no words", reason)
		}
	}
	if n := Lost(drops); n != 2 {
		t.Errorf("%d lost records, want 2", n)
	}
}
