package segment

import (
	"ingero/internal/store/storetest"
	"ingero/internal/tick"
	"testing"
	"time"
)

// New GPU states are kept: every ten seconds, and at once if anything but a figure changes.
func TestGPUNews(t *testing.T) {
	n := GPUChanges{}
	kept := ""
	for _, g := range []tick.GPU{
		{Time: storetest.Began, Bus: "a"}, {Time: storetest.Began, Bus: "b"}, {Time: storetest.Began, Bus: "a"}, {Time: storetest.Began.Add(2 * time.Second), Bus: "a", Busy: storetest.Ptr(1.0)},
		{Time: storetest.Began.Add(4 * time.Second), Bus: "a", Throttle: []string{"idle"}}, {Time: storetest.Began.Add(6 * time.Second), Bus: "a", Throttle: []string{"idle"}},
		{Time: storetest.Began.Add(8 * time.Second), Bus: "a", Throttle: []string{"idle"}, Lost: true}, {Time: storetest.Began.Add(17 * time.Second), Bus: "a", Throttle: []string{"idle"}, Lost: true},
		{Time: storetest.Began.Add(18 * time.Second), Bus: "a", Throttle: []string{"idle"}, Lost: true},
	} {
		if n.IsNew(&g) {
			kept += "+"
		} else {
			kept += "-"
		}
	}
	if kept != "++--+-+-+" {
		t.Errorf("kept %s", kept)
	}
}
