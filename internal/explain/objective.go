package explain

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"ingero/internal/tick"
	"ingero/internal/wire"
)

// Objective is a service level objective for requests to a server: a limit of one of their times.
// The zero value has no limit.
type Objective struct {
	Of    string // "ttft", "tpot" or "total"; "": ttft
	Limit time.Duration
}

// ObjectiveOf parses an objective: "ttft=200ms", "tpot=30ms" or "total=5s".
func ObjectiveOf(text string) (o Objective, err error) {
	of, limit, _ := strings.Cut(text, "=")
	d, err := time.ParseDuration(limit)
	if _, known := objectiveTexts[of]; !known || err != nil || d <= 0 {
		return o, fmt.Errorf("%q is no objective: write ttft=200ms (time to the first byte), tpot=30ms (time between two events) or total=5s", text)
	}
	return Objective{of, d}, nil
}

// String returns the objective as it is written, "" without a limit.
func (o Objective) String() string {
	if o.Limit == 0 {
		return ""
	}
	return o.Of + "=" + o.Limit.String()
}

// objectiveTexts has what is divided, by the time that an objective limits.
var objectiveTexts = map[string]string{
	"ttft":  "Time to the first byte",
	"tpot":  "Time after the first byte",
	"total": "Time to the last byte",
}

// overTexts has the words for the requests that miss an objective.
var overTexts = map[string]string{"ttft": "to it", "tpot": "between two events", "total": "to it"}

// missed reports whether a request misses the objective. Without a limit each does.
func (o Objective) missed(x *tick.Request) bool {
	var d time.Duration
	switch o.Of {
	case "tpot":
		d, _ = x.Between()
	case "total":
		d = x.Last
	default:
		d, _ = x.FirstByte()
	}
	return d > o.Limit
}

// waits sums up what requests waited for.
type waits struct {
	requests uint64
	sum      tick.RequestWaits
	split    tick.RequestTime
}

// add adds a request's time of a kind: "ttft", "tpot" or "total".
func (w *waits) add(x *tick.Request, of string) {
	w.requests++
	toFirst, after := x.Waits()
	if of != "tpot" {
		w.sum.Add(toFirst)
		w.split.Add(&x.ToFirst)
	}
	if of == "tpot" || of == "total" {
		w.sum.Add(after)
		w.split.Add(&x.After)
	}
}

// wire returns the parts, nil if there are no requests.
func (w *waits) wire(o Objective) *wire.RequestWaits {
	if w.requests == 0 {
		return nil
	}
	j := &wire.RequestWaits{Objective: o.String(), Of: cmp.Or(o.Of, "ttft"), Requests: w.requests, Parts: []wire.WaitPart{}, Engine: []wire.WaitPart{}}
	for i, d := range w.sum {
		if d > 0 {
			j.Parts = append(j.Parts, wire.WaitPart{Name: tick.RequestWaitNames[i], NS: int64(d)})
			j.TotalNS += int64(d)
		}
	}
	s := &w.split
	for _, p := range []struct {
		name string
		d    time.Duration
	}{{"gpu", s.GPU}, {"cpu", s.CPU}, {"runnable", s.Runnable}, {"blocked", s.Blocked}, {"unknown", s.Unknown}} {
		if p.d > 0 {
			j.Engine = append(j.Engine, wire.WaitPart{Name: p.name, NS: int64(p.d)})
		}
	}
	return j
}

// partTexts names the parts of requests' time, in a report and in the live table.
var partTexts = map[string]struct{ long, short string }{
	"unread":     {"until the server read the request", "unread"},
	"receiving":  {"the rest of the request arrived", "receive"},
	"server":     {"the server, while its engine had no work", "server"},
	"prompts":    {"the engine: prompts of other requests", "prompts"},
	"tokens":     {"the engine: tokens", "tokens"},
	"own-prompt": {"the engine: the request's own prompt", "own"},
	"steps":      {"the engine: prompts or tokens", "steps"},
	"delivery":   {"from the engine's step to the byte", "deliver"},
	"unknown":    {"not known", "unknown"},
}

// engineTexts names the parts of the engine's steps.
var engineTexts = map[string]string{
	"gpu": "waiting for the GPU", "cpu": "on a CPU", "runnable": "waiting for a CPU", "blocked": "blocked otherwise", "unknown": "not known",
}

// waits writes what requests waited for.
func (w *writer) waits(j *wire.RequestWaits) {
	of := plural(j.Requests, "request")
	if _, limit, ok := strings.Cut(j.Objective, "="); ok {
		of = fmt.Sprintf("the %s with more than %s %s", plural(j.Requests, "request"), limit, overTexts[j.Of])
	}
	w.text(fmt.Sprintf("  %s of %s, %s in all:", objectiveTexts[j.Of], of, Duration(j.TotalNS)), "  ")
	for _, p := range j.Parts {
		w.line("    " + alignLeft(partTexts[p.Name].long, 44) + alignRight(short(p.NS), 10) + alignRight(percentOf(p.NS, j.TotalNS), 9))
	}
	sum := int64(0)
	for _, p := range j.Engine {
		sum += p.NS
	}
	var parts []string
	for _, p := range j.Engine {
		parts = append(parts, engineTexts[p.Name]+" "+percentOf(p.NS, sum))
	}
	if len(parts) > 0 {
		w.text("    The engine's steps: "+strings.Join(parts, ", ")+".", "    ")
	}
}

func percentOf(ns, all int64) string {
	return fmt.Sprintf("%.1f %%", 100*float64(ns)/float64(max(all, 1)))
}

func requestTimeOf(p *tick.RequestTime) *wire.RequestTime {
	return &wire.RequestTime{ServerNS: int64(p.Idle), PromptsNS: int64(p.Prompts), OwnNS: int64(p.Own), TokensNS: int64(p.Tokens), StepsNS: int64(p.Steps), DeliverNS: int64(p.Deliver),
		GPUNS: int64(p.GPU), CPUNS: int64(p.CPU), RunnableNS: int64(p.Runnable), BlockedNS: int64(p.Blocked), UnknownNS: int64(p.Unknown)}
}
