package probes

import (
	"debug/elf"
	"slices"
	"strings"

	"ingero/pkg/events"
)

// Coverage is what Attach would do with a library, and what it would leave.
type Coverage struct {
	Probes   int      // functions with a row
	Stepped  int      // of these: at a place that costs a second trap
	Lacks    []string // rows that the library has no function for, sorted
	Unprobed []string // functions of the library's API that no row is for, sorted
	Versions []string // that its symbols are defined with: libcudart.so.12
}

// Cover reads a library as Attach does, with the whole catalog, and attaches
// nothing.
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

// versions returns the names of the versions that the library defines, but for that
// of the file itself when there are others.
func (l *surface) versions() (out []string) {
	defined, err := l.file.DynamicVersions()
	if err != nil {
		return nil // it has none
	}
	for _, v := range defined {
		if v.Flags&elf.VER_FLG_BASE == 0 || len(defined) == 1 {
			out = append(out, v.Name)
		}
	}
	return out
}
