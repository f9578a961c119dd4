package probes

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"sort"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Object is a shared library to attach to.
type Object struct {
	Path string      // that the kernel can open: what a link is made on
	Name string      // that people know it by
	File io.ReaderAt // its contents
	Lib  events.Library
	// Functions are those to choose from; nil: all that it exports.
	Functions []elf.Symbol
}

// site is one place in a library for one row's probes.
type site struct {
	row    int // index into the tracer's rows
	symbol string
	offset uint64 // in the file
	place  Place
}

// maxCode bounds how much of a function is read to place its probe. Functions
// of the real libraries are much shorter; one that is not is probed at +0.
const maxCode = 16 << 10

var errNotELF = errors.New("not an ELF library of this machine")

// findSites reads a library's exported functions and places a probe in each
// that has a row. Aliases of one address get one probe. Rows whose symbols are
// all absent are reported.
func findSites(o Object, rows []events.Row, firstByte bool) (sites []site, reports []tick.Report, err error) {
	defer func() {
		if p := recover(); p != nil { // debug/elf on a hostile file
			sites, reports, err = nil, nil, fmt.Errorf("read %s: %w (%v)", o.Name, errNotELF, p)
		}
	}()
	f, err := elf.NewFile(o.File)
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w (%v)", o.Name, errNotELF, err)
	}
	syms := o.Functions
	if syms == nil {
		if syms, err = f.DynamicSymbols(); err != nil && !errors.Is(err, elf.ErrNoSymbols) {
			return nil, nil, fmt.Errorf("read symbols of %s: %w", o.Name, err)
		}
	}
	functions := map[string][]elf.Symbol{}
	for _, s := range syms {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Section != elf.SHN_UNDEF {
			functions[s.Name] = append(functions[s.Name], s)
		}
	}
	taken := map[uint64]bool{}
	for i := range rows {
		row := &rows[i]
		if row.Lib != o.Lib {
			continue
		}
		found := false
		for _, name := range row.AllSymbols() {
			for _, s := range functions[name] {
				found = true
				x, err := newSite(f, s, firstByte)
				if err != nil {
					reports = append(reports, tick.Report{Kind: "unprobed-symbol", Object: o.Name, Why: err.Error()})
					continue
				}
				if taken[x.offset] {
					continue
				}
				taken[x.offset] = true
				x.row = i
				sites = append(sites, x)
			}
		}
		if !found {
			reports = append(reports, tick.Report{Kind: "missing-symbol", Object: o.Name,
				Why: fmt.Sprintf("does not export %s", row.Name)})
		}
	}
	sort.Slice(sites, func(i, j int) bool { return sites[i].offset < sites[j].offset })
	return sites, reports, nil
}

// Where returns where in the file a function's probe would go, and what kind of
// place that is.
func Where(o Object, symbol string) (offset uint64, at Place, err error) {
	row := events.Row{Name: symbol, Lib: o.Lib}
	sites, reports, err := findSites(o, []events.Row{row}, false)
	if err != nil {
		return 0, 0, err
	}
	if len(sites) == 0 {
		return 0, 0, fmt.Errorf("%s: %s", o.Name, reports[0].Why)
	}
	return sites[0].offset, sites[0].place, nil
}

// newSite finds a function in the file and places its probe, on the first byte
// if that is asked for.
func newSite(f *elf.File, s elf.Symbol, firstByte bool) (site, error) {
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD || p.Flags&elf.PF_X == 0 || s.Value < p.Vaddr || s.Value >= p.Vaddr+p.Filesz {
			continue
		}
		at := s.Value - p.Vaddr
		size := min(s.Size, p.Filesz-at)
		x := site{symbol: s.Name, offset: p.Off + at, place: PlaceStepped}
		short := size == 0 || size > maxCode // unknown end: no looking for branches, so stay at +0
		if short {
			size = min(16, p.Filesz-at)
		}
		code := make([]byte, size)
		if _, err := p.ReadAt(code, int64(at)); err != nil {
			return site{}, fmt.Errorf("%s: cannot read its code: %w", s.Name, err)
		}
		skip, where := place(code)
		if (short || firstByte) && skip > 0 {
			skip, where = 0, PlaceStepped
		}
		x.offset += skip
		x.place = where
		return x, nil
	}
	return site{}, fmt.Errorf("%s: address %#x lies in no executable segment", s.Name, s.Value)
}
