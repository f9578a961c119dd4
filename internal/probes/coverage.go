package probes

import (
	"slices"
	"strings"

	"ingero/pkg/events"
)

// Coverage is what Attach would attach to in a library, and what it would not.
type Coverage struct {
	Probes   int      // functions with a row
	Stepped  int      // those at a place that costs a second trap
	Lacks    []string // rows without a function in the library, sorted
	Unprobed []string // functions of the library's API without a row, sorted
	Versions []string // versions of its symbols: libcudart.so.12
}

// Cover inspects a library as Attach does, with the whole catalog, without attaching.
func Cover(o Object) (Coverage, error) {
	l, sites, reports, err := inspect(o, events.Catalog, false)
	if err != nil {
		return Coverage{}, err
	}
	c := Coverage{Probes: len(sites), Unprobed: l.unprobed(o.Lib, events.Catalog), Versions: l.versions()}
	for i := range sites {
		if sites[i].place == PlaceStepped {
			c.Stepped++
		}
	}
	for _, r := range reports {
		if r.Kind == "missing-symbol" {
			c.Lacks = append(c.Lacks, strings.TrimPrefix(r.Why, "does not export "))
		}
	}
	slices.Sort(c.Lacks)
	return c, nil
}

// versions returns the versions that the library defines, without the file's own if there are
// others.
func (l *surface) versions() (out []string) {
	defined := l.file.Versions()
	for _, v := range defined {
		if !v.Base || len(defined) == 1 {
			out = append(out, v.Name)
		}
	}
	return out
}
