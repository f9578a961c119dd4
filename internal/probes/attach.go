package probes

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"ingero/internal/tick"
)

// Attached is a library with its probes attached.
type Attached struct {
	Probes  int // functions that can have probes
	Stepped int // those at a place that costs a second trap
	Reports []tick.Report
	// Unprobed lists the functions of the library's API without a row, sorted.
	Unprobed []string

	tracer *Tracer
	object Object // its Path is that of file
	file   *os.File
	sites  []site
	pids   []uint32

	mu     sync.Mutex // guards the fields below
	parts  []*part
	closed bool
	err    error
}

// part is a set of probes of a library that are attached and detached as a whole: those of the
// launches that the driver's probes see too, or all others.
type part struct {
	sites    []site
	twin     *libraryCopy
	links    map[int][]io.Closer // by row if each row has its own links, else all under oneLink
	detached map[int]bool        // rows currently without probes
}

// divideSites divides a library into parts: one part if each function has its own links.
func (t *Tracer) divideSites(sites []site) []*part {
	doubled := func(s site) bool { return s.row < len(t.rows) && Doubled(&t.rows[s.row]) }
	if t.mode == ModePerf || !slices.ContainsFunc(sites, doubled) {
		return []*part{{sites: sites}}
	}
	others := slices.DeleteFunc(slices.Clone(sites), doubled)
	return []*part{{sites: others}, {sites: slices.DeleteFunc(slices.Clone(sites), func(s site) bool { return !doubled(s) })}}
}

// oneLink is the key for all rows of a library.
const oneLink = -1

// Close detaches the probes. It is idempotent.
func (a *Attached) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return a.err
	}
	a.closed = true
	var errs []error
	for _, p := range a.parts {
		errs = append(errs, closeAll(p.links))
		if p.twin != nil {
			errs = append(errs, p.twin.Close())
		}
	}
	if a.file != nil {
		errs = append(errs, a.file.Close())
	}
	a.err = errors.Join(errs...)
	return a.err
}

func closeAll(links map[int][]io.Closer) error {
	var all []io.Closer
	for _, of := range links {
		for _, l := range slices.Backward(of) {
			all = append(all, l)
		}
	}
	return closeLinks(all)
}

// closeLinks detaches programs. No process is started meanwhile: its child would hold the links, and
// so the programs would run, until it executes its own program. The child of one that was started just
// before may still hold them for a moment: it continues the parent before it closes its files.
func closeLinks[L io.Closer](links []L) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	var errs []error
	for _, l := range links {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// Attach attaches probes to every function of the library that has a row. With pids, only these
// processes are probed, and not their children; without, every process that maps the file is
// probed, and the targets among them are traced. On error nothing stays attached. A row that the
// library lacks is a report, not an error.
func (t *Tracer) Attach(o Object, pids ...uint32) (*Attached, error) {
	l, sites, reports, err := inspect(o, t.rows, t.firstByte)
	if err != nil {
		return nil, err
	}
	a := &Attached{Probes: len(sites), Reports: reports, Unprobed: l.unprobed(o.Lib, t.rows), tracer: t, sites: sites, pids: pids}
	if len(sites) == 0 {
		return a, nil
	}
	for _, s := range sites {
		if s.place == PlaceStepped {
			a.Stepped++
		}
	}
	if len(pids) == 0 {
		a.pids = []uint32{0}
	}
	if a.object, a.file, err = hold(o); err != nil {
		return nil, fmt.Errorf("attach to %s: %w", o.Name, err)
	}
	var detached map[int]bool
	if o.Detached != nil {
		detached = o.Detached(a)
	}
	for _, p := range t.divideSites(sites) {
		a.parts = append(a.parts, p)
		if err := a.begin(p, p.without(detached)); err != nil {
			return nil, errors.Join(err, a.Close())
		}
	}
	return a, nil
}

// begin makes the first links of a part. On error the part owns the links made so far.
func (a *Attached) begin(p *part, detached map[int]bool) (err error) {
	if p.twin, err = a.tracer.copies.take(p.sites); err != nil {
		return fmt.Errorf("attach to %s: %w", a.object.Name, err)
	}
	p.detached = detached
	if p.links, err = a.link(wanted(p.sites, detached), p.twin.number); err != nil {
		return err
	}
	return p.twin.linked()
}

// without returns those of the given rows that the part has.
func (p *part) without(rows map[int]bool) map[int]bool {
	out := map[int]bool{}
	for i := range p.sites {
		if rows[p.sites[i].row] {
			out[p.sites[i].row] = true
		}
	}
	return out
}

// Links returns the number of links for each row's probes if each row has its own.
func (a *Attached) Links() map[int]int {
	links := map[int]int{}
	for i := range a.sites {
		links[a.sites[i].row] += max(1, len(a.pids))
		if a.tracer.watchesReturn(&a.sites[i]) {
			links[a.sites[i].row] += max(1, len(a.pids))
		}
	}
	return links
}

// Without returns the number of functions with probes if the given rows have none.
func (a *Attached) Without(rows map[int]bool) int { return len(wanted(a.sites, rows)) }

// wanted returns the sites of all rows except those in left.
func wanted(sites []site, left map[int]bool) []site {
	return slices.DeleteFunc(slices.Clone(sites), func(s site) bool { return left[s.row] })
}

// hold keeps the inspected file open, so that links are made on it. Its path may name another file
// by now, or no file later.
func hold(o Object) (Object, *os.File, error) {
	f, ok := o.File.(*os.File)
	if !ok {
		return o, nil, nil
	}
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return o, nil, fmt.Errorf("keep %s open: %w", o.Name, err)
	}
	o.Path = fmt.Sprintf("/proc/self/fd/%d", fd)
	return o, os.NewFile(uintptr(fd), o.Name), nil
}

// link makes links for sites. On error it returns the links made so far.
func (a *Attached) link(sites []site, number uint8) (map[int][]io.Closer, error) {
	out := map[int][]io.Closer{}
	for _, pid := range a.pids {
		if a.tracer.mode != ModePerf {
			links, err := a.tracer.link(a.object, sites, number, pid)
			out[oneLink] = append(out[oneLink], links...)
			if err != nil {
				return out, err
			}
			continue
		}
		for i := range sites {
			links, err := a.tracer.link(a.object, sites[i:i+1], number, pid)
			out[sites[i].row] = append(out[sites[i].row], links...)
			if err != nil {
				return out, err
			}
		}
	}
	return out, nil
}

// cookie encodes a row, the number of the library's copy, and the place.
func (s *site) cookie(number uint8) uint64 {
	return uint64(s.row) | uint64(number)<<16 | uint64(s.place)<<32
}

// link links a library. It is the only code that knows how each mode does that.
func (t *Tracer) link(o Object, sites []site, number uint8, pid uint32) ([]io.Closer, error) {
	all, returns := places{}, places{}
	for i := range sites {
		all.add(&sites[i], number)
		if t.watchesReturn(&sites[i]) {
			returns.add(&sites[i], number)
		}
	}
	prog := t.programsFor(o.Lib)
	switch t.mode {
	case ModeSession:
		return linkAll(
			func() (io.Closer, error) {
				return all.link(t.programs[prog.both], linkSession, o.Path, false, pid)
			})
	case ModeMulti:
		// Returns first: a return without an entry is ignored, but a call without a return probe
		// would stay open.
		return linkAll(
			func() (io.Closer, error) {
				return returns.link(t.programs[prog.exit], linkMulti, o.Path, true, pid)
			},
			func() (io.Closer, error) {
				return all.link(t.programs[prog.enter], linkMulti, o.Path, false, pid)
			})
	case ModePerf:
		return t.linkEach(o, sites, number, pid)
	}
	return nil, fmt.Errorf("link mode %q: %w", t.mode, ErrNotSupported)
}

// watchesReturn reports whether the function at a site gets a return probe.
func (t *Tracer) watchesReturn(s *site) bool {
	return s.row >= firstCalibrationRow || !t.entry.Load() && !t.rows[s.row].EntryOnly
}

// places has the offsets to link, and the programs' cookies for them.
type places struct{ offsets, cookies []uint64 }

func (p *places) add(s *site, number uint8) {
	p.offsets = append(p.offsets, s.offset)
	p.cookies = append(p.cookies, s.cookie(number))
}

func (p *places) link(prog *ebpf.Program, kind linkKind, path string, ret bool, pid uint32) (io.Closer, error) {
	if len(p.offsets) == 0 {
		return io.NopCloser(nil), nil
	}
	return linkPlaces(prog, kind, path, p.offsets, p.cookies, ret, pid)
}

func linkAll(steps ...func() (io.Closer, error)) (links []io.Closer, err error) {
	for _, step := range steps {
		l, err := step()
		if err != nil {
			return links, err
		}
		links = append(links, l)
	}
	return links, nil
}

// linkEach makes one perf link for each end of each function.
func (t *Tracer) linkEach(o Object, sites []site, number uint8, pid uint32) (links []io.Closer, err error) {
	x, err := link.OpenExecutable(o.Path)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", o.Name, err)
	}
	prog := t.programsFor(o.Lib)
	for i := range sites {
		s := &sites[i]
		opts := &link.UprobeOptions{Address: s.offset, Cookie: s.cookie(number), PID: int(pid)}
		if t.watchesReturn(s) {
			l, err := x.Uretprobe(s.symbol, t.programs[prog.exit], opts)
			if err != nil {
				return links, fmt.Errorf("attach return of %s in %s: %w", s.symbol, o.Name, err)
			}
			links = append(links, l)
		}
		l, err := x.Uprobe(s.symbol, t.programs[prog.enter], opts)
		if err != nil {
			return links, fmt.Errorf("attach %s in %s: %w", s.symbol, o.Name, err)
		}
		links = append(links, l)
	}
	return links, nil
}
