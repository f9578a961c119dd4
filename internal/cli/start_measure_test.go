//go:build measure

package cli

import (
	"strings"
	"testing"
)

// The reports of docs/start/first-incident.md name the line that makes the input slow, and no longer
// once the program is changed.
func TestFirstIncidentCause(t *testing.T) {
	blocks, reports := typeFirstIncident(t)
	const line = "train.py:12 in load()"
	for i, has := range []bool{2: true, 3: false, 4: true} {
		if i >= 2 && strings.Contains(reports[i], line) != has {
			t.Errorf("%sprints %q: %v, want %v:\n%s", blocks[i], line, !has, has, reports[i])
		}
	}
	if words := "waited for input from python3"; !strings.Contains(reports[2], words) {
		t.Errorf("the first report lacks %q:\n%s", words, reports[2])
	}
}
