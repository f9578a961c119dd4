package real

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Report has the fields of ingero explain --json that the judge reads.
type Report struct {
	Chains []Chain `json:"chains"`
}

// Chain is a cause that the report names.
type Chain struct {
	Rule      string    `json:"rule"`
	Severity  string    `json:"severity"`
	PID       uint32    `json:"pid"`
	RootCause string    `json:"root_cause"`
	LostNS    int64     `json:"lost_ns"`
	LostMinNS int64     `json:"lost_min_ns"`
	LostMaxNS int64     `json:"lost_max_ns"`
	WindowNS  int64     `json:"window_ns"`
	Culprits  []Culprit `json:"culprits"`
	text      string    // its JSON
}

// Culprit is the process, thread or other entity that took a chain's time.
type Culprit struct {
	Name   string `json:"name"`
	PID    uint32 `json:"pid"`
	PPID   uint32 `json:"ppid"`
	TID    uint32 `json:"tid"`
	Own    bool   `json:"own"`
	Agent  bool   `json:"agent"`
	What   string `json:"what"`
	LostNS int64  `json:"lost_ns"`
}

// UnmarshalJSON parses a chain, and keeps its text.
func (c *Chain) UnmarshalJSON(text []byte) error {
	type plain Chain
	err := json.Unmarshal(text, (*plain)(c))
	c.text = string(text)
	return err
}

// Verdict is a report compared with the truth.
type Verdict struct {
	Victim                *Victim
	Truth                 *Truth
	Said                  time.Duration // reported loss, of the right causes
	Others                time.Duration // loss during the fault caused by other programs of this machine
	Cause, Culprit, InTen bool          // InTen: reported and true loss differ by at most a tenth, except for Others
	Lines                 []string      // reported lines of the fault
	Root                  string        // root cause, in words
	False                 []string      // false causes
	Busy                  []string      // causes due to other programs of this machine
}

// Judge compares a report with the truth. marked are the lines of the victim's fault.
func Judge(v *Victim, x *Truth, r *Report, marked []string) *Verdict {
	out := &Verdict{Victim: v, Truth: x}
	var blamed, all int64
	for i := range r.Chains {
		c := &r.Chains[i]
		switch {
		case slices.Contains(v.Rules, c.Rule) && !c.foreign(x, v.Beside == hog):
		case slices.Contains(v.With, c.Rule):
			out.say(c)
			out.Lines = c.reported(marked, out.Lines)
			continue
		case c.foreign(x, v.Beside == hog):
			out.Busy = append(out.Busy, c.short())
			out.Others += time.Duration(float64(c.LostNS) * float64(x.To.Sub(x.From)) / float64(max(c.WindowNS, 1)))
			continue
		default:
			out.False = append(out.False, c.short())
			continue
		}
		if !out.Cause {
			out.Cause, out.Root = true, c.RootCause
		}
		out.say(c)
		for _, k := range c.Culprits {
			all += k.LostNS
			if slices.Contains(x.Culprits, k.PID) || slices.Contains(x.Culprits, k.PPID) {
				blamed += k.LostNS
			}
		}
		out.Lines = c.reported(marked, out.Lines)
	}
	out.Culprit = out.Cause && (len(x.Culprits) == 0 || blamed*2 > all)
	lost, waited := time.Duration(x.LostNS), time.Duration(x.LostNS-x.RanNS)
	out.InTen = out.Cause && out.Said <= lost+lost/10 && out.Said+out.Others >= waited-waited/10
	return out
}

// say adds a chain's loss if the chain belongs to the process with the clock: other processes of
// the job lose time in parallel.
func (v *Verdict) say(c *Chain) {
	if c.PID == v.Truth.PID {
		v.Said += time.Duration(c.LostNS)
	}
}

// reported appends the marked lines that the chain reports.
func (c *Chain) reported(marked, to []string) []string {
	for _, line := range marked {
		if i := strings.Index(c.text, line); i >= 0 && !digit(c.text, i+len(line)) && !slices.Contains(to, line) {
			to = append(to, line)
		}
	}
	return to
}

func digit(text string, at int) bool {
	return at < len(text) && '0' <= text[at] && text[at] <= '9'
}

// foreign reports whether a chain is due to programs other than the victim's.
func (c *Chain) foreign(x *Truth, hog bool) bool {
	if c.Rule != "cpu-taken" && c.Rule != "burst-of-programs" && c.Rule != "cpu-stolen" {
		return false
	}
	var ours int64
	for _, k := range c.Culprits {
		job := k.Own || k.PID == x.PID || k.PPID == x.PID || slices.Contains(x.Culprits, k.PID) || slices.Contains(x.Culprits, k.PPID)
		if job || k.Agent && !hog {
			ours += k.LostNS
		}
	}
	return ours*2 < c.LostNS
}

// short returns a brief form of a chain.
func (c *Chain) short() string {
	text := fmt.Sprintf("%s %s %d ms", c.Severity, c.Rule, c.LostNS/1e6)
	if len(c.Culprits) > 0 {
		k := &c.Culprits[0]
		text += " by " + strings.TrimSpace(k.Name+" "+k.What)
		if k.Agent {
			text += " (ingero)"
		}
	}
	return text
}

// Respects tells for each respect whether the report is right: "cause", "culprit", "lost" and "line".
// It lacks those that do not apply. If the cause is wrong, it has nothing else.
func (v *Verdict) Respects() map[string]bool {
	all := map[string]bool{}
	if len(v.Victim.Rules) > 0 {
		all["cause"] = v.Cause
	}
	if !v.Cause {
		return all
	}
	all["lost"] = v.InTen
	if len(v.Truth.Culprits) > 0 {
		all["culprit"] = v.Culprit
	}
	if v.Victim.Line != "" {
		all["line"] = len(v.Lines) > 0
	}
	return all
}

// Right reports whether the report is right in all respects, and has no false cause.
func (v *Verdict) Right() bool {
	for _, right := range v.Respects() {
		if !right {
			return false
		}
	}
	return len(v.False) == 0
}
