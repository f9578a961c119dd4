package stats

import "testing"

func TestDurations(t *testing.T) {
	var seen Sketch
	var all, none Hist
	for range 90 { // calls with thinned records
		all.Record(1000, 1)
	}
	for range 10 {
		all.Record(500_000, 1)
		seen.Add(500_000, 1)
	}
	longer := seen.Clone()
	longer.Add(510_000, 1)
	for _, tt := range []struct {
		name string
		d    Durations
		q    float64
		want int64
		err  float64
		none bool
	}{
		{"all records", Durations{Seen: &seen, All: &all}, 0.5, 500_000, SketchError, false},
		{"thinned", Durations{Seen: &seen, All: &all, Thinned: true}, 0.5, 1000, HistError, false},
		{"thinned, no histogram", Durations{Seen: &seen, Thinned: true}, 0.5, 500_000, SketchError, false},
		{"longest, its record there", Durations{Seen: longer, All: &all, Thinned: true}, 1, 510_000, 0, false},
		{"longest, no record", Durations{Seen: &Sketch{}, All: &all, Thinned: true}, 1, 500_000, HistError, false},
		{"nothing", Durations{}, 0.5, 0, 0, true},
		{"nothing seen", Durations{Seen: &Sketch{}, All: &all}, 0.5, 0, 0, true},
		{"nothing returned", Durations{Seen: &Sketch{}, All: &none, Thinned: true}, 0.5, 0, 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := tt.d.Quantile(tt.q)
			if ok == tt.none {
				t.Errorf("ok = %v", ok)
			}
			checkError(t, "quantile", got, tt.want, tt.err)
		})
	}
}
