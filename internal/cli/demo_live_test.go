package cli

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
)

// Each scenario, run and traced on the running kernel, ends with a report that names its
// cause; what else goes on on a busy machine may be in it as well.
func TestDemoLive(t *testing.T) {
	b := newBench(t)
	for i := range scenarios {
		s := &scenarios[i]
		if s.rule == "" || s.name == "incident" { // it has a test of its own
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			var found []string
			for range 2 { // what else the machine does may hide it once
				if found = s.live(t, b); slices.Contains(found, s.rule+" by "+s.culprit) {
					return
				}
			}
			t.Errorf("no %s by %s in %q", s.rule, s.culprit, found)
		})
	}
}

// live runs the scenario and returns the causes that its report names.
func (s *scenario) live(t *testing.T, b *bench) (found []string) {
	t.Helper()
	stdout, stderr, code := b.output("demo", s.name, "--json")
	if code != 0 {
		t.Fatalf("code %d:\n%s", code, stderr)
	}
	_, text, _ := bytes.Cut([]byte(stdout), []byte("{"))
	var r struct {
		Source string
		Chains []struct {
			Rule     string
			Culprits []struct{ Name string }
		}
	}
	if err := json.Unmarshal(append([]byte("{"), text...), &r); err != nil {
		t.Fatalf("%v in %s", err, stdout)
	}
	if r.Source != "the simulated GPU" {
		t.Errorf("made from %s", r.Source)
	}
	for _, c := range r.Chains {
		by := ""
		if s.culprit != "" && len(c.Culprits) > 0 {
			by = c.Culprits[0].Name
		}
		found = append(found, c.Rule+" by "+by)
	}
	return found
}
