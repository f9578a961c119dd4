package govern

import "testing"

// Each step has facts that it sheds, and each of these facts has a description.
func TestStepsShedFacts(t *testing.T) {
	var all Facts
	for i := range Steps {
		s := Sheds(Steps[i].Name)
		if s == 0 || s.String() == "" {
			t.Errorf("%s takes nothing away", Steps[i].Name)
		}
		all |= s
	}
	if len(sheds) != len(Steps) || all != 1<<len(factWords)-1 {
		t.Errorf("%d rows of %d steps take %b, there are %d kinds", len(sheds), len(Steps), all, len(factWords))
	}
	if s := Sheds("of a later version"); s != 0 || s.String() != "" {
		t.Errorf("an unknown step takes %v", s)
	}
}
