package episode

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"ingero/internal/tick"
)

const (
	// quiet is how long an episode must lose nothing to be over, unless two of the process's steps
	// take longer. Losses every quarter of a minute, as from a metrics collector, are one episode.
	quiet = 20 * time.Second
	// apart is the least time between two updates, unless the severity rises.
	apart = 10 * time.Second
	// settle is how long a chain must be missing to be reported as revised: a chain near the
	// reporting threshold appears and disappears.
	settle = 3 * time.Second
	// grown is the factor by which an episode's loss must grow for an update.
	grown = 2
	// maxCulprits is how many culprits of an episode are remembered.
	maxCulprits = 16
)

// Tracker follows chains from tick to tick. The zero value is ready.
type Tracker struct{ lives map[string]*life }

// life is the state of a chain in the ticks.
type life struct {
	chain  tick.Chain
	number uint64 // the episode's number: its first tick; 0: none yet
	open   bool   // the episode is not over
	hidden bool   // as last reported

	moved        time.Time     // tick of the last slow step
	missingSince time.Time     // since when the chain is missing; zero: it is not
	total        time.Duration // lost since the chain first appeared
	marks        []mark        // totals of the last window
	base         time.Duration // total at the episode's start
	last         time.Time     // end of the previous episode: its last slow step
	from         time.Time
	grade        tick.Severity

	lastReport   time.Time     // last report
	reportedLost time.Duration // loss in the last report
	culprits     []string      // reported culprits
}

// mark is what a chain had cost at a time.
type mark struct {
	at    time.Time
	total time.Duration
}

// Now is a tick's chains and their processes.
type Now struct {
	Time      time.Time
	Seq       uint64
	Window    time.Duration
	Final     bool
	Processes []tick.Process
	Chains    []tick.Chain
	Hidden    []tick.Hidden
}

// Tick returns the episodes that begin, change or end with a tick.
func (x *Tracker) Tick(now Now) []tick.Episode {
	t := &update{Now: now}
	x.tick(t)
	return t.events
}

// update is a tick and its events.
type update struct {
	Now
	events []tick.Episode
}

func (x *Tracker) tick(t *update) {
	if x.lives == nil {
		x.lives = map[string]*life{}
	}
	seen := map[string]bool{}
	for i := range t.Chains {
		seen[t.Chains[i].ID] = true
		x.see(t, &t.Chains[i], "")
	}
	for i := range t.Hidden {
		seen[t.Hidden[i].Chain.ID] = true
		x.see(t, &t.Hidden[i].Chain, t.Hidden[i].Why)
	}
	for _, id := range slices.Sorted(maps.Keys(x.lives)) {
		if !seen[id] {
			x.miss(t, x.lives[id])
		}
	}
	if !t.Final {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(x.lives)) {
		if l := x.lives[id]; l.open {
			l.end(t, tick.ReasonFinal)
		}
	}
}

// see handles a chain that is in the tick.
func (x *Tracker) see(t *update, c *tick.Chain, why tick.HiddenReason) {
	l := x.lives[c.ID]
	if l == nil {
		l = &life{}
		x.lives[c.ID] = l
	}
	l.missingSince = time.Time{}
	slower := c.To.After(l.chain.To)
	l.add(t, c, slower)
	hidden := why != ""
	if l.open && !l.hidden && why == tick.HiddenSeverity {
		hidden = false // it was shown at a higher severity
	}
	if l.open && hidden && !l.hidden {
		l.end(t, tick.ReasonSilenced)
		slower = false
	}
	switch {
	case l.open && l.hidden && !hidden: // it becomes visible
		l.hidden, l.grade = false, max(l.grade, c.Severity)
		l.emit(t, tick.EpisodeBegin, "")
	case l.open:
		l.update(t)
	case slower:
		l.begin(t, hidden)
	}
	switch {
	case !l.open:
	case t.Time.Sub(c.To) > max(quiet, 2*c.StepP50): // a chain shows the loss of a step when the step ends
		l.end(t, tick.ReasonOver)
	case !slower && ended(t, c.PID):
		l.end(t, tick.ReasonExit)
	}
}

// add updates the figures. A chain's loss covers the window that ends now, so the total is that
// plus the total at the window's start.
func (l *life) add(t *update, c *tick.Chain, slower bool) {
	if slower {
		l.moved = t.Time
	}
	since := l.moved.Add(-c.Window)
	var before time.Duration
	n := 0
	for n < len(l.marks) && !l.marks[n].at.After(since) {
		before = l.marks[n].total
		n++
	}
	l.total = before + c.Lost
	if n > 1 {
		l.marks = slices.Delete(l.marks, 0, n-1) // the last of them is still needed
	}
	if slower {
		l.marks = append(l.marks, mark{l.moved, l.total})
	} else if k := len(l.marks); k > 0 {
		l.marks[k-1].total = l.total
	}
	l.chain = *c
}

func (l *life) begin(t *update, hidden bool) {
	c := &l.chain
	l.number = t.Seq
	l.open, l.hidden = true, hidden
	l.grade, l.culprits = c.Severity, nil
	l.from = c.From
	if !c.From.After(l.last) { // the earlier ones belong to another episode
		l.from = t.Time.Add(-t.Window)
		if l.from.After(c.To) {
			l.from = c.To
		}
	}
	l.emit(t, tick.EpisodeBegin, "")
}

// update reports changes.
func (l *life) update(t *update) {
	switch first := l.chain.Culprit(); {
	case l.chain.Severity > l.grade:
		l.grade = l.chain.Severity
		l.emit(t, tick.EpisodeUpdate, tick.ReasonSeverity)
	case t.Time.Sub(l.lastReport) < apart:
	case first != "" && !slices.Contains(l.culprits, first) && len(l.culprits) < maxCulprits:
		l.emit(t, tick.EpisodeUpdate, tick.ReasonCulprit)
	case l.lost() >= grown*l.reportedLost && l.reportedLost > 0:
		l.emit(t, tick.EpisodeUpdate, tick.ReasonLost)
	}
}

func (l *life) end(t *update, why tick.EpisodeReason) {
	l.emit(t, tick.EpisodeEnd, why)
	l.open, l.base, l.last = false, l.total, l.chain.To
}

// miss handles a chain that is no longer in the tick.
func (x *Tracker) miss(t *update, l *life) {
	if l.missingSince.IsZero() {
		l.missingSince = t.Time
	}
	switch {
	case l.chain.Over(t.Time):
		if l.open { // no tick came while it became over: the agent stood still
			l.end(t, tick.ReasonOver)
		}
		delete(x.lives, l.chain.ID)
	case t.Final, t.Time.Sub(l.missingSince) >= settle:
		if l.number > 0 {
			l.emit(t, tick.EpisodeRevised, "")
		}
		delete(x.lives, l.chain.ID)
	}
}

func (l *life) lost() time.Duration { return max(l.total-l.base, 0) }

// emit adds an event to the tick.
func (l *life) emit(t *update, kind tick.EpisodeKind, why tick.EpisodeReason) {
	c := &l.chain
	t.events = append(t.events, tick.Episode{
		Kind: kind, ID: fmt.Sprintf("%s.%d", c.ID, l.number), Why: why, Severity: l.grade,
		From: l.from, To: c.To, Lost: l.lost(), Hidden: l.hidden, Chain: *c,
	})
	l.lastReport, l.reportedLost = t.Time, l.lost()
	if first := c.Culprit(); first != "" && !slices.Contains(l.culprits, first) {
		l.culprits = append(l.culprits, first)
	}
}

// ended reports whether a process is known to have ended.
func ended(t *update, pid uint32) bool {
	for i := range t.Processes {
		if p := &t.Processes[i]; p.PID == pid {
			return !p.Ended.IsZero()
		}
	}
	return false
}
