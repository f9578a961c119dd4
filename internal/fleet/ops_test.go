package fleet

import (
	"testing"

	"ingero/pkg/events"
)

// Another machine's operation names map to the same operations.
func TestOpOf(t *testing.T) {
	for i := range events.Catalog {
		r := &events.Catalog[i]
		if got := opOf(r.Op.String(), uint8(r.Op.Source())); got != r.Op {
			t.Errorf("%s of source %d is %s", r.Op, r.Op.Source(), got)
		}
	}
	if got := opOf("cuOfALaterVersion", uint8(events.SourceDriver)); got != 0 {
		t.Errorf("a name that is unknown is %s", got)
	}
}
