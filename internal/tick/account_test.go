package tick

import (
	"slices"
	"testing"
)

// A window's code has the growth of each place, at most the window's time between calls: the earlier
// time of a place that was not listed is unknown.
func TestCodeOfAWindow(t *testing.T) {
	was := Breakdown{GapCPU: 100, Code: []CodeTime{{"a", 60}, {"b", 30}}}
	now := Breakdown{GapCPU: 150, Code: []CodeTime{{"c", 90}, {"a", 70}, {"b", 30}}}
	got := now.Since(&was)
	if want := []CodeTime{{"c", 50}, {"a", 10}}; !slices.Equal(got.Code, want) || got.CodeAt() != "c" {
		t.Errorf("%v, mostly at %q, want %v", got.Code, got.CodeAt(), want)
	}
	if sum := got.Plus(&was); !slices.Equal(sum.Code, []CodeTime{{"a", 70}, {"c", 50}, {"b", 30}}) || sum.CodeAt() != "" {
		t.Errorf("with the time before: %v, mostly at %q", sum.Code, sum.CodeAt())
	}
}
