package tick

import "time"

// EpisodeKind is the kind of an event in an episode.
type EpisodeKind uint8

// The kinds.
const (
	EpisodeBegin   EpisodeKind = iota + 1
	EpisodeUpdate              // higher severity, much more cost, or another culprit
	EpisodeEnd                 // its figures are final
	EpisodeRevised             // with more data, the loss is too small to report or not confirmed
)

var episodeKinds = [...]string{"", "chain_begin", "chain_update", "chain_end", "chain_revised"}

// String returns the name of the kind in JSON lines.
func (k EpisodeKind) String() string {
	if int(k) < len(episodeKinds) {
		return episodeKinds[k]
	}
	return "?"
}

// EpisodeReason is the reason of an update or an end.
type EpisodeReason string

// The reasons of updates and of ends.
const (
	ReasonSeverity EpisodeReason = "severity"      // severity rose since the last report
	ReasonLost     EpisodeReason = "lost"          // cost doubled since the last report
	ReasonCulprit  EpisodeReason = "culprit"       // another culprit took most
	ReasonOver     EpisodeReason = "over"          // no more loss for a while
	ReasonExit     EpisodeReason = "process-ended" // the victim ended
	ReasonFinal    EpisodeReason = "trace-ended"
	ReasonSilenced EpisodeReason = "silenced"
)

// Episode is an event in the life of a chain. An episode lasts from the time when the chain costs
// something until it costs nothing for a while. A chain that costs something again starts a new
// episode.
type Episode struct {
	Kind EpisodeKind
	ID   string // chain ID, and the number of the tick in which the episode began
	Why  EpisodeReason
	// Severity is the highest so far. From and To are the first and the last slow step of the
	// episode. Lost is its total cost, however long it is; the chain's own figures cover the last
	// minute.
	Severity Severity
	From, To time.Time
	Lost     time.Duration
	Hidden   bool // the chain is not to be shown
	Chain    Chain
}

// HiddenReason is why a chain is not shown.
type HiddenReason string

// The reasons.
const (
	HiddenSilenced HiddenReason = "silenced"
	HiddenRule     HiddenReason = "rules-off"
	HiddenSeverity HiddenReason = "min-severity"
)

// Hidden is a chain that was found but is not in the tick's chains, because the user hid it.
type Hidden struct {
	Chain   Chain
	Why     HiddenReason
	Silence Silence // HiddenSilenced: the silence
}

// Silence hides chains for a while.
type Silence struct {
	What         string // chain ID, a rule, or rule@culprit
	Since, Until time.Time
	Reason       string // in words; may be empty
	Who          string // user who set it
}

// Culprit returns the name of the largest culprit: for a program, its name without the PID; "" if
// unknown.
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

// AllChains returns the chains of the tick, including hidden ones.
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
