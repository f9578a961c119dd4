package probes

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strconv"
	"strings"

	"ingero/internal/elffile"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Object is a shared library to attach to.
type Object struct {
	Path string      // path for the kernel: links are made on it
	Name string      // name for people
	File io.ReaderAt // its contents
	Lib  events.Library
	// Functions has the functions to choose from; nil: all exported ones.
	Functions []elffile.Function
	// Detached, unless nil, returns the rows that get no probes at first: see [Attached.SetDetached]. It
	// is called once.
	Detached func(a *Attached) map[int]bool
}

// site is a place in a library for one row's probes.
type site struct {
	row    int // index into the tracer's rows
	symbol string
	offset uint64 // in the file
	place  Place
}

// maxCode bounds the code that is read to place a function's probe. Functions of the real libraries
// are much shorter; a longer one is probed at +0.
const maxCode = 16 << 10

var errNotELF = errors.New("not an ELF library of this machine")

// surface has the exported functions of a library.
type surface struct {
	file      *elffile.File
	functions map[string][]elffile.Function
	version   int // of the library, by its soname; 0: unknown
}

// inspect reads a library and places the probes of the rows.
func inspect(o Object, rows []events.Row, firstByte bool) (l surface, sites []site, reports []tick.Report, err error) {
	defer func() {
		if p := recover(); p != nil { // the disassembler on hostile code
			err = fmt.Errorf("read %s: %w (%v)", o.Name, errNotELF, p)
		}
	}()
	if l, err = readSurface(o); err != nil {
		return l, nil, nil, err
	}
	sites, reports = l.findSites(o, rows, firstByte)
	return l, sites, reports, nil
}

// readSurface reads a library's exported functions.
func readSurface(o Object) (l surface, err error) {
	if l.file, err = elffile.Open(o.File); err != nil {
		return l, fmt.Errorf("read %s: %w (%v)", o.Name, errNotELF, err)
	}
	functions := o.Functions
	if functions == nil {
		if functions, err = l.file.Functions(elffile.Dynsym); err != nil {
			return l, fmt.Errorf("read symbols of %s: %w", o.Name, err)
		}
		l.version = majorVersion(l.file.Soname())
	}
	l.functions = map[string][]elffile.Function{}
	for _, s := range functions {
		l.functions[s.Name] = append(l.functions[s.Name], s)
	}
	return l, nil
}

// named returns the functions that match a row's symbol. Their version is that of the symbol,
// cudaGraphInstantiate@@libcudart.so.12, or else that of the library's name.
func (l *surface) named(want events.Symbol) (out []elffile.Function) {
	for _, s := range l.functions[want.Name] {
		version := majorVersion(s.Version)
		if version == 0 {
			version = l.version
		}
		if want.In(version) {
			out = append(out, s)
		}
	}
	return out
}

// majorVersion returns 12 for "libcudart.so.12" and 11 for "libcudart.so.11.0", 0 without a
// version.
func majorVersion(name string) int {
	_, version, _ := strings.Cut(name, ".so.")
	major, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(major)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// api has the prefixes of each library's API functions.
var api = map[events.Library][]string{
	events.LibCudart: {"cuda", "__cuda"}, events.LibCuda: {"cu"}, events.LibNCCL: {"nccl"}, events.LibNVTX: {"nvtxRange", "nvtxDomainRange"},
}

// unprobed returns the functions of the library's API without a row, sorted.
func (l *surface) unprobed(lib events.Library, rows []events.Row) (names []string) {
	known := map[string]bool{}
	for i := range rows {
		for _, s := range rows[i].AllSymbols() {
			known[s] = true
		}
	}
	for name := range l.functions {
		if !known[name] && slices.ContainsFunc(api[lib], func(p string) bool { return strings.HasPrefix(name, p) }) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// findSites places a probe in each function of the library with a row. Aliases of one address get
// one probe. Rows whose symbols are all absent are reported, unless they are of other versions
// only.
func (l *surface) findSites(o Object, rows []events.Row, firstByte bool) (sites []site, reports []tick.Report) {
	taken := map[uint64]bool{}
	for i := range rows {
		row := &rows[i]
		if row.Lib != o.Lib {
			continue
		}
		found := false
		for _, symbol := range row.Exports() {
			found = found || len(l.functions[symbol.Name]) > 0
			for _, s := range l.named(symbol) {
				x, err := newSite(l.file.Loads, o.File, s, firstByte)
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
	return sites, reports
}

// Where returns the file offset of a function's probe, and the kind of its place.
func Where(o Object, symbol string) (offset uint64, at Place, err error) {
	row := events.Row{Name: symbol, Lib: o.Lib}
	_, sites, reports, err := inspect(o, []events.Row{row}, false)
	if err != nil {
		return 0, 0, err
	}
	if len(sites) == 0 {
		return 0, 0, fmt.Errorf("%s: %s", o.Name, reports[0].Why)
	}
	return sites[0].offset, sites[0].place, nil
}

// newSite finds a function in the file and places its probe, on the first byte if firstByte is set.
func newSite(loads elffile.Loads, file io.ReaderAt, s elffile.Function, firstByte bool) (site, error) {
	at, ok := loads.At(s.Value)
	if !ok || !at.Exec {
		return site{}, fmt.Errorf("%s: address %#x lies in no executable segment", s.Name, s.Value)
	}
	x := site{symbol: s.Name, offset: at.Off, place: PlaceStepped}
	size := min(s.Size, at.Size)
	short := size == 0 || size > maxCode // unknown end: no branch check, so stay at +0
	if short {
		size = min(16, at.Size)
	}
	code := make([]byte, size)
	if n, err := file.ReadAt(code, int64(at.Off)); n < len(code) {
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
