package figure

import "testing"

func TestSpread(t *testing.T) {
	tests := []struct {
		s      Spread
		format string
		want   string
	}{
		{Spread{3}, "%.0f", "3 (3 to 3)"},
		{Spread{3, 1, 2}, "%.1f", "2.0 (1.0 to 3.0)"},
		{Spread{4, 1, 3, 2}, "%.0f", "3 (1 to 4)"},
	}
	for _, tt := range tests {
		if got := tt.s.Text(tt.format); got != tt.want {
			t.Errorf("%v: got %q, want %q", []float64(tt.s), got, tt.want)
		}
	}
	if s := (Spread{3, 1, 2}); s.Median() != 2 || s[0] != 3 {
		t.Errorf("the median is %g, and the rounds are in another order: %v", s.Median(), []float64(s))
	}
}

func TestLine(t *testing.T) {
	const want = "Benchmark/ingero-session-links/ratio 1 1.06 ratio"
	if got := Line("ingero, session links/ratio", 1.06, "ratio"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
