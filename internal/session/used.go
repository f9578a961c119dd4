package session

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"ingero/internal/probes"
	"ingero/internal/proc"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Where each probe is a link of its own, before Linux 6.6, the kernel takes its time to take
// one out. So that a session ends soon, no more functions have probes than can be taken out
// within ending: those first that files of the traced processes name, of these the
// most telling.
const (
	ending        = 7 * time.Second        // and some time for all else
	unlinkUnknown = 100 * time.Millisecond // where it was not measured
	usesEvery     = 3 * time.Second        // files are looked for that are mapped since
)

// telling are the classes of calls, the most telling first.
var telling = []events.Class{
	events.ClassLaunch, events.ClassSync, events.ClassMalloc, events.ClassFree, events.ClassMemcpy, events.ClassCollective,
	events.ClassComm, events.ClassGraph, events.ClassMemset, events.ClassModule, events.ClassDevice, events.ClassEvent,
	events.ClassMemory, events.ClassStream, events.ClassQuery, events.ClassRange, events.ClassOther,
}

// candidate is what gets probes, or does not, as a whole.
type candidate struct {
	lib   *library
	rows  []int
	links int
	use   proc.Use // the surest of the rows
	rank  int      // in telling, of the first
}

// fewLinks tells whether probes have to be chosen.
func (l *libraries) fewLinks() bool { return l.tracer.Mode() == probes.ModePerf }

// mostLinks is how many links there may be.
func (l *libraries) mostLinks() int {
	if l.unlink <= 0 {
		return int(ending / unlinkUnknown)
	}
	return max(1, int(ending/l.unlink))
}

// candidates lists what a library could have probes on. What takes memory and what gives it
// back go together, as far as programs name them: half of it would look like a leak.
func (l *libraries) candidates(lib *library) (out []candidate) {
	rows := l.tracer.Rows()
	memory := -1
	links := lib.attached.Links()
	for _, i := range slices.Sorted(maps.Keys(links)) {
		c := candidate{lib: lib, rows: []int{i}, links: links[i], rank: slices.Index(telling, rows[i].Class)}
		for _, name := range rows[i].AllSymbols() {
			c.use = max(c.use, lib.uses[name])
		}
		if c.use == proc.UseNone || rows[i].Class != events.ClassMalloc && rows[i].Class != events.ClassFree {
			out = append(out, c)
			continue
		}
		if memory < 0 {
			memory = len(out)
			out = append(out, c)
			continue
		}
		m := &out[memory]
		m.rows, m.links, m.use, m.rank = append(m.rows, i), m.links+c.links, max(m.use, c.use), min(m.rank, c.rank)
	}
	return out
}

// choice is what of a library has no probes.
type choice struct {
	rows  map[int]bool
	named []int // of them, those that programs name
}

// choose says which rows of each library have none, given how many links there may be.
func choose(all []candidate, most int) map[*library]choice {
	slices.SortStableFunc(all, func(a, b candidate) int {
		return cmp.Or(-cmp.Compare(a.use, b.use), cmp.Compare(a.rank, b.rank))
	})
	out := map[*library]choice{}
	for i := range all {
		c := &all[i]
		if most -= c.links; most >= 0 {
			continue
		}
		most += c.links
		without := out[c.lib]
		if without.rows == nil {
			without.rows = map[int]bool{}
		}
		for _, row := range c.rows {
			without.rows[row] = true
			if c.use != proc.UseNone {
				without.named = append(without.named, row)
			}
		}
		out[c.lib] = without
	}
	return out
}

// chooseProbes chooses for all libraries and, if it is not nil, a new one, and returns what
// that is to do without.
func (l *libraries) chooseProbes(added *library) map[int]bool {
	l.choosing.Lock()
	defer l.choosing.Unlock()
	l.mu.Lock()
	libs := slices.Clone(l.order)
	if added != nil {
		libs = append(libs, added)
	}
	users := make([][]uint32, len(libs))
	for i, lib := range libs {
		users[i] = slices.Collect(maps.Keys(lib.users))
	}
	l.mu.Unlock()
	of := map[uint32]map[string]proc.Use{} // read once for each process
	var all []candidate
	for i, lib := range libs {
		for _, pid := range users[i] {
			if of[pid] == nil {
				of[pid], _ = l.finder.Uses(pid) // none of one that has ended
			}
			for name, use := range of[pid] {
				lib.uses[name] = max(lib.uses[name], use)
			}
		}
		all = append(all, l.candidates(lib)...)
	}
	chosen := choose(all, l.mostLinks())
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lib := range libs {
		l.chose(lib, chosen[lib])
	}
	if added != nil {
		return added.without
	}
	return nil
}

// chose notes what a library is to do without. mu is held.
func (l *libraries) chose(lib *library, c choice) {
	had := len(lib.without) > 0
	lib.without, lib.Probes = c.rows, lib.attached.Without(c.rows)
	var now []tick.Report
	if len(c.rows) > 0 {
		now = append(now, l.leftOut(lib, c))
	}
	if had || len(now) > 0 {
		l.report.replace(lib.Path, []string{"left-out", "unused-left-out"}, now...)
	}
}

// leftOut reports what a library is to do without. mu is held.
func (l *libraries) leftOut(lib *library, c choice) tick.Report {
	r := tick.Report{Kind: "unused-left-out", Object: lib.Path, Why: fmt.Sprintf(
		"%d of its %d functions have probes: this kernel takes so long to take one out that there are no more than it can in %s",
		lib.Probes, lib.attached.Probes, ending)}
	const most = 4
	var named []string
	for _, row := range c.named[:min(len(c.named), most)] {
		named = append(named, l.tracer.Rows()[row].Name)
	}
	if len(named) > 0 {
		r.Kind, r.Why = "left-out", r.Why+"; programs name also "+strings.Join(named, ", ")
	} else {
		r.Why += "; all that programs name have some"
	}
	if more := len(c.named) - most; more > 0 {
		r.Why += fmt.Sprintf(" and %d more", more)
	}
	return r
}

// chooseSoon has watchUses choose again.
func (l *libraries) chooseSoon() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// watchUses chooses again as processes map other files, until ctx ends.
func (l *libraries) watchUses(ctx context.Context) {
	again := time.NewTicker(usesEvery)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		case <-l.changed:
		}
		l.chooseProbes(nil)
		l.apply()
	}
}
