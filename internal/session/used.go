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

// Before Linux 6.6, each probe has its own link, and the kernel takes long to detach one. For a
// session to end soon, only as many functions get probes as can be detached within ending. First
// come those that files of the traced processes name, and among these the most telling classes.
const (
	ending        = 7 * time.Second        // other work at the end takes extra time
	unlinkUnknown = 100 * time.Millisecond // if it was not measured
	usesEvery     = 3 * time.Second        // interval of checks for new files
)

// telling lists the classes of calls, most telling first.
var telling = []events.Class{
	events.ClassLaunch, events.ClassSync, events.ClassMalloc, events.ClassFree, events.ClassMemcpy, events.ClassCollective,
	events.ClassComm, events.ClassGraph, events.ClassMemset, events.ClassModule, events.ClassDevice, events.ClassEvent,
	events.ClassMemory, events.ClassStream, events.ClassQuery, events.ClassRange, events.ClassOther,
}

// candidate is a group of rows that get probes as a whole.
type candidate struct {
	lib   *library
	rows  []int
	links int
	use   proc.Use // most certain use among the rows
	rank  int      // lowest index in telling among the rows
}

// fewLinks reports whether functions to probe must be chosen.
func (l *libraries) fewLinks() bool { return l.tracer.Mode() == probes.ModePerf }

// mostLinks returns the largest number of links.
func (l *libraries) mostLinks() int {
	if l.unlink <= 0 {
		return int(ending / unlinkUnknown)
	}
	return max(1, int(ending/l.unlink))
}

// candidates lists the candidates of a library. Functions that allocate and free memory form one
// group, if programs name them: half of it would look like a leak.
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

// choice has the rows of a library without probes.
type choice struct {
	rows  map[int]bool
	named []int // the ones among them that programs name
}

// choose returns the rows of each library without probes. most bounds the links.
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

// chooseProbes chooses for all libraries and, unless nil, for added. It returns the rows of added
// without probes.
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
	of := map[uint32]map[string]proc.Use{} // read once per process
	var all []candidate
	for i, lib := range libs {
		for _, pid := range users[i] {
			if of[pid] == nil {
				of[pid], _ = l.finder.Uses(pid) // none if it has ended
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
		l.applyChoice(lib, chosen[lib])
	}
	if added != nil {
		return added.without
	}
	return nil
}

// applyChoice records the rows of a library without probes. mu is held.
func (l *libraries) applyChoice(lib *library, c choice) {
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

// leftOut reports the rows of a library without probes. mu is held.
func (l *libraries) leftOut(lib *library, c choice) tick.Report {
	r := tick.Report{Kind: "unused-left-out", Object: lib.Path, Why: fmt.Sprintf(
		"%d of its %d functions have probes: this kernel detaches probes slowly, so ingero attaches only as many as it can detach in %s",
		lib.Probes, lib.attached.Probes, ending)}
	const most = 4
	var named []string
	for _, row := range c.named[:min(len(c.named), most)] {
		named = append(named, l.tracer.Rows()[row].Name)
	}
	if len(named) > 0 {
		r.Kind, r.Why = "left-out", r.Why+"; programs also use these, which have none: "+strings.Join(named, ", ")
	} else {
		r.Why += "; every function that programs use has one"
	}
	if more := len(c.named) - most; more > 0 {
		r.Why += fmt.Sprintf(" and %d more", more)
	}
	return r
}

// chooseSoon makes watchUses choose again.
func (l *libraries) chooseSoon() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// watchUses chooses again when processes map other files, until ctx ends.
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
