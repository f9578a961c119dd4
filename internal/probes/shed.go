package probes

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"ingero/internal/bpf"
	"ingero/pkg/events"
)

// Shed selects what is shed for all processes. The zero value sheds nothing.
type Shed struct {
	RareStacks bool // only stacks of slow and failed calls, and a smaller sample
	NoPython   bool // no Python frames in stacks
	NoStacks   bool
	Calls      bool // count quick calls without timing them: see [Quick]
	NoHost     bool // detach the host programs that are not rare
	Thin       uint32
}

// Quick reports whether calls of a row return at once, with a result that carries no information:
// they can be counted without timing.
func Quick(r *events.Row) bool {
	switch r.Class {
	case events.ClassMemset, events.ClassQuery, events.ClassMemcpy:
	case events.ClassEvent:
		if !strings.Contains(r.Name, "EventRecord") {
			return false
		}
	default:
		return false
	}
	return r.Always() == "" && !r.EntryOnly && !r.Text
}

// Expensive reports whether the probes of a row may be detached when they cost too much.
func Expensive(r *events.Row) bool { return Quick(r) || r.Class == events.ClassLaunch }

// Shed sheds exactly what s selects. Open calls return normally.
func (t *Tracer) Shed(s Shed) error {
	var flags bpf.IngeroShedFlags
	for flag, on := range map[bpf.IngeroShedFlags]bool{
		bpf.IngeroShedFlagsSHED_RARE: s.RareStacks, bpf.IngeroShedFlagsSHED_PYTHON: s.NoPython,
		bpf.IngeroShedFlagsSHED_STACKS: s.NoStacks,
	} {
		if on {
			flags |= flag
		}
	}
	if err := errors.Join(t.objects.Shed.Set(uint32(flags)), t.objects.ThinLeast.Set(s.Thin)); err != nil {
		return fmt.Errorf("write what the programs omit: %w", err)
	}
	return errors.Join(t.leversChanged(), t.countQuick(s.Calls), t.detachHost(s.NoHost))
}

// leversChanged makes threads reload what is counted at entry only.
func (t *Tracer) leversChanged() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.levers++
	if err := t.objects.LeversChanged.Set(t.levers); err != nil {
		return fmt.Errorf("write whether launches are timed: %w", err)
	}
	return nil
}

// countQuick switches the calls of quick rows between counting at entry only and timing.
func (t *Tracer) countQuick(on bool) error {
	if t.entry.Load() || t.quickCounted == on {
		return nil
	}
	for i := range t.rows {
		if !Quick(&t.rows[i]) {
			continue
		}
		var r bpf.IngeroRecipe
		if err := t.objects.Recipes.Lookup(uint32(i), &r); err != nil {
			return fmt.Errorf("read recipe of %s: %w", t.rows[i].Name, err)
		}
		r.Flags &^= uint8(bpf.IngeroRecipeFlagsRECIPE_ENTRY_ONLY)
		if on {
			r.Flags |= uint8(bpf.IngeroRecipeFlagsRECIPE_ENTRY_ONLY)
		}
		if err := t.objects.Recipes.Put(uint32(i), r); err != nil {
			return fmt.Errorf("write recipe of %s: %w", t.rows[i].Name, err)
		}
	}
	t.quickCounted = on
	return nil
}

// detachHost detaches the host programs that are not rare, or attaches them again.
func (t *Tracer) detachHost(on bool) error {
	t.mu.Lock()
	same, begun, links := t.hostDetached == on, t.hostBegun, t.hostLinks
	t.hostDetached = on
	if on {
		t.hostLinks = nil
	}
	t.mu.Unlock()
	if same || !begun {
		return nil
	}
	if on {
		return closeLinks(links)
	}
	// The ends of earlier starts were missed.
	if err := errors.Join(clearMap[uint64](t.objects.Requests), clearMap[uint32](t.objects.Reclaiming)); err != nil {
		return err
	}
	t.attachOften()
	return nil
}

func clearMap[K any](m *ebpf.Map) error {
	var keys []K
	for it := m.Iterate(); ; {
		var k K
		var value []byte
		if !it.Next(&k, &value) {
			if err := it.Err(); err != nil {
				return fmt.Errorf("read open calls: %w", err)
			}
			break
		}
		keys = append(keys, k)
	}
	for _, k := range keys {
		if err := m.Delete(k); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("delete open calls: %w", err)
		}
	}
	return nil
}

// SetDetached detaches the probes of rows, and attaches those of all others. The new links see calls
// before the old ones go. The returns of calls that are open then are missed, and these calls count
// as abandoned. Parts of the library without a change (see [Doubled]) are unaffected. It may take
// seconds if each function has its own links. On error the probes stay unchanged, as far as possible.
func (a *Attached) SetDetached(rows map[int]bool) error {
	return a.eachPart(func(p *part) error {
		detached := p.without(rows)
		switch {
		case maps.Equal(p.detached, detached):
			return nil
		case a.tracer.mode == ModePerf:
			return a.relinkEach(p, detached)
		}
		return a.relink(p, detached)
	})
}

// DropReturns detaches the return probes, after [Tracer.WatchNoReturns].
func (a *Attached) DropReturns() error {
	return a.eachPart(func(p *part) error { return a.relink(p, p.detached) })
}

// eachPart calls change for each part, unless all probes are detached for good.
func (a *Attached) eachPart(change func(p *part) error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil
	}
	var errs []error
	for _, p := range a.parts {
		errs = append(errs, change(p))
	}
	return errors.Join(errs...)
}

// relink replaces a part's links by those of its rows that are not detached.
func (a *Attached) relink(p *part, detached map[int]bool) error {
	twin, err := a.tracer.copies.take(p.sites)
	if err != nil {
		return fmt.Errorf("attach to %s: %w", a.object.Name, err)
	}
	links, err := a.link(wanted(p.sites, detached), twin.number)
	if err == nil {
		err = twin.linked()
	}
	if err != nil {
		return errors.Join(err, closeAll(links), twin.Close())
	}
	err = errors.Join(closeAll(p.links), p.twin.Close())
	p.links, p.twin, p.detached = links, twin, detached
	return err
}

// relinkEach is relink if each row has its own links.
func (a *Attached) relinkEach(p *part, detached map[int]bool) error {
	var errs []error
	var again []site
	for _, s := range p.sites {
		if p.detached[s.row] && !detached[s.row] {
			again = append(again, s)
		}
	}
	links, err := a.link(again, p.twin.number)
	errs = append(errs, err)
	maps.Copy(p.links, links)
	gone := map[int][]io.Closer{}
	for row := range detached {
		if of := p.links[row]; of != nil {
			gone[row] = of
			delete(p.links, row)
		}
	}
	p.detached = detached
	return errors.Join(append(errs, closeAll(gone), p.twin.linked())...)
}

// StackTime returns the time of traced threads spent on stacks so far: of their calls, and of themselves
// between calls and while others wait for them.
func (t *Tracer) StackTime() (ofCalls, own time.Duration, err error) {
	var calls, profile uint64
	if err := errors.Join(t.objects.StackNs.Get(&calls), t.objects.ProfileNs.Get(&profile)); err != nil {
		return 0, 0, fmt.Errorf("read the cost of stacks: %w", err)
	}
	return time.Duration(calls), time.Duration(profile), nil
}

// Measurement measures the cost of the tracepoint programs while it runs. The kernel times all
// programs meanwhile, which costs each run two clock readings.
type Measurement struct {
	t            *Tracer
	stats        io.Closer
	since        time.Time
	host, ledger time.Duration // run times at the start
}

// Measure starts a Measurement. It needs CAP_SYS_ADMIN.
func (t *Tracer) Measure() (*Measurement, error) {
	stats, err := ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME))
	if err != nil {
		return nil, fmt.Errorf("enable run time statistics of programs: %w", err)
	}
	w := &Measurement{t: t, stats: stats, since: time.Now()}
	w.host, w.ledger, err = t.ranFor()
	if err != nil {
		return nil, errors.Join(err, stats.Close())
	}
	return w, nil
}

// End returns the shares of one CPU that the host programs and the ledger's programs took.
func (w *Measurement) End() (host, ledger float64, err error) {
	h, l, err := w.t.ranFor()
	passed := time.Since(w.since)
	if err = errors.Join(err, w.stats.Close()); err != nil || passed <= 0 {
		return 0, 0, err
	}
	return float64(h-w.host) / float64(passed), float64(l-w.ledger) / float64(passed), nil
}

// ranFor returns the measured run times of the tracepoint programs.
func (t *Tracer) ranFor() (host, ledger time.Duration, err error) {
	for _, of := range []struct {
		names []string
		sum   *time.Duration
	}{{t.hostNames, &host}, {ledgerPrograms, &ledger}} {
		for _, n := range of.names {
			p := t.programs[n]
			if p == nil {
				continue
			}
			s, err := p.Stats()
			if err != nil {
				return 0, 0, fmt.Errorf("read the run time of %s: %w", n, err)
			}
			*of.sum += s.Runtime
		}
	}
	return host, ledger, nil
}
