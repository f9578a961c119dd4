package tick

import "time"

// EpisodeKind says what happened to an episode.
type EpisodeKind uint8

// The kinds.
const (
	EpisodeBegin   EpisodeKind = iota + 1
	EpisodeUpdate              // it became graver, cost much more, or has another culprit
	EpisodeEnd                 // its figures are final
	EpisodeRevised             // it was a judgement on too little: there was nothing
)

var episodeKinds = [...]string{"", "chain_begin", "chain_update", "chain_end", "chain_revised"}

// String returns the kind as lines of JSON name it.
func (k EpisodeKind) String() string {
	if int(k) < len(episodeKinds) {
		return episodeKinds[k]
	}
	return "?"
}

// EpisodeWhy says why there is something to tell of an episode.
type EpisodeWhy string

// The reasons of updates and of ends.
const (
	WhySeverity EpisodeWhy = "severity"      // it is graver than was told
	WhyLost     EpisodeWhy = "lost"          // it has cost twice what was told
	WhyCulprit  EpisodeWhy = "culprit"       // another took most
	WhyOver     EpisodeWhy = "over"          // nothing more was lost for a while
	WhyExit     EpisodeWhy = "process-ended" // of the process that lost
	WhyFinal    EpisodeWhy = "trace-ended"
	WhySilenced EpisodeWhy = "silenced"
)

// Episode is one step in the life of a chain: the time from when it costs something
// until it does not for a while. A chain that costs something again has another.
type Episode struct {
	Kind EpisodeKind
	ID   string // the chain's, and the number of the tick in which it began
	Why  EpisodeWhy
	// Severity is the gravest so far. From and To are the first and the last slow step
	// of the episode, Lost what it has cost in all, however long it is; the chain's own
	// figures are of the last minute.
	Severity Severity
	From, To time.Time
	Lost     time.Duration
	Hidden   bool // the chain is not to be shown
	Chain    Chain
}

// HiddenWhy says why a chain is not shown.
type HiddenWhy string

// The reasons.
const (
	HiddenSilenced HiddenWhy = "silenced"
	HiddenRule     HiddenWhy = "rules-off"
	HiddenSeverity HiddenWhy = "min-severity"
)

// Hidden is a chain that was found, and is not among those of the tick since somebody
// said that it is not to be.
type Hidden struct {
	Chain   Chain
	Why     HiddenWhy
	Silence Silence // HiddenSilenced: which
}

// Silence is what somebody does not want to hear of for a while.
type Silence struct {
	What         string // id of a chain, a rule, or rule@culprit
	Since, Until time.Time
	Reason       string // in words; may be empty
	Who          string // the user who said so
}

// Culprit names what took most of a chain: a program by its name, whatever its number;
// "" where nothing is known.
func (c *Chain) Culprit() string {
	if len(c.Culprits) == 0 {
		return ""
	}
	x := &c.Culprits[0]
	if name := x.Thread.Name.String(); x.Thread.TID != 0 && name != "" {
		return name
	}
	return x.What
}

// AllChains returns the chains of the tick, and those that are not to be shown.
func (t *Tick) AllChains() []Chain {
	if len(t.Hidden) == 0 {
		return t.Chains
	}
	all := make([]Chain, 0, len(t.Chains)+len(t.Hidden))
	all = append(all, t.Chains...)
	for i := range t.Hidden {
		all = append(all, t.Hidden[i].Chain)
	}
	return all
}
