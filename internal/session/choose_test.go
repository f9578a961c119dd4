package session

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/proc"
	"ingero/pkg/events"
)

// Functions that programs name come first, by class. Candidates that exceed the limit are left out,
// and smaller ones may follow.
func TestChoose(t *testing.T) {
	rank := func(c events.Class) int { return slices.Index(telling, c) }
	a, b := &library{}, &library{}
	all := []candidate{
		{lib: a, rows: []int{1}, links: 2, use: proc.UseNone, rank: rank(events.ClassLaunch)},
		{lib: a, rows: []int{2}, links: 2, use: proc.UseNamed, rank: rank(events.ClassQuery)},
		{lib: a, rows: []int{3, 4, 5}, links: 6, use: proc.UseImported, rank: rank(events.ClassMalloc)},
		{lib: b, rows: []int{6}, links: 2, use: proc.UseImported, rank: rank(events.ClassSync)},
		{lib: b, rows: []int{7}, links: 1, use: proc.UseNone, rank: rank(events.ClassOther)},
	}
	for _, tt := range []struct {
		name string
		most int
		want map[*library][]int // rows without probes
	}{
		{"all", 13, map[*library][]int{}},
		{"all but the last", 12, map[*library][]int{b: {7}}},
		{"named", 10, map[*library][]int{a: {1}, b: {7}}},
		{"a smaller one instead", 11, map[*library][]int{a: {1}}},
		{"memory goes together", 7, map[*library][]int{a: {3, 4, 5}}},
		{"one", 2, map[*library][]int{a: {1, 2, 3, 4, 5}, b: {7}}},
		{"none", 0, map[*library][]int{a: {1, 2, 3, 4, 5}, b: {6, 7}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := map[*library][]int{}
			for lib, c := range choose(slices.Clone(all), tt.most) {
				for row := range c.rows {
					got[lib] = append(got[lib], row)
				}
				slices.Sort(got[lib])
			}
			for _, lib := range []*library{a, b} {
				if diff := cmp.Diff(tt.want[lib], got[lib]); diff != "" {
					t.Errorf("rows without probes (-want +got):\n%s", diff)
				}
			}
		})
	}
}
