package segment

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/tick"
)

func FuzzLabels(f *testing.F) {
	enc, dec := codecs(f)
	f.Add(enc.column(nil, appendLabels(nil, []tick.Label{
		{Time: 1000, PID: 7, Key: "epoch", Value: "3"}, {Time: 900, PID: 7, TID: 8, Key: "request", Value: "ä"}, {Time: 1 << 60, PID: 1 << 31, Key: "epoch"}, {}})))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := readLabels(b, dec)
		if err != nil {
			return
		}
		again, err := readLabels(enc.column(nil, appendLabels(nil, list)), dec)
		if d := cmp.Diff(list, again); err != nil || d != "" {
			t.Fatalf("%v\n-first +again:\n%s", err, d)
		}
	})
}
