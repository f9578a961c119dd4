package store

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"time"

	"ingero/internal/store/log"
	"ingero/internal/store/segment"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

var sqlRevised = `DELETE FROM chains WHERE session = ? AND id = ?`

var sqlChain = `REPLACE INTO chains VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// chainRow is a chain's row in the database.
type chainRow struct {
	id, rule, severity        string
	pid, tid                  uint32
	op                        events.Op
	from, to                  int64
	lost, lostMin, lostMax    time.Duration
	window, excess            time.Duration
	steps, slow               int
	confidence                float64
	baseline                  string
	stepP50, stepP99, without time.Duration
	opP50, opP99              time.Duration
	culprits, timeline, notIt string
}

// culpritJSON and momentJSON are elements of a chain's JSON columns.
type culpritJSON struct {
	PID      uint32   `json:"pid,omitempty"`
	TID      uint32   `json:"tid,omitempty"`
	PPID     uint32   `json:"ppid,omitempty"`
	CgroupID uint64   `json:"cgroup_id,omitempty"`
	Comm     string   `json:"comm,omitempty"`
	Own      bool     `json:"own,omitempty"`
	Agent    bool     `json:"agent,omitempty"`
	What     string   `json:"what,omitempty"`
	Cgroup   string   `json:"cgroup,omitempty"`
	Cmdline  string   `json:"cmdline,omitempty"`
	Where    string   `json:"where,omitempty"`
	Parent   string   `json:"parent,omitempty"`
	Path     string   `json:"path,omitempty"`
	CPUs     []uint16 `json:"cpus,omitempty"`
	At       string   `json:"at,omitempty"`
	Waited   string   `json:"waited_at,omitempty"`
	Lost     int64    `json:"lost_ns"`
	Whose    string   `json:"whose,omitempty"` // tick.Root
	Did      string   `json:"did,omitempty"`
	Group    string   `json:"limit_group,omitempty"` // tick.Limit
	File     string   `json:"limit_file,omitempty"`
	Raw      string   `json:"limit,omitempty"`
	Start    uint32   `json:"start_ticks,omitempty"` // events.Thread
	GPU      string   `json:"gpu,omitempty"`

	Sharers []sharerJSON `json:"sharers,omitempty"`
}

type sharerJSON struct {
	PID     uint32 `json:"pid"`
	Comm    string `json:"comm,omitempty"`
	Cmdline string `json:"cmdline,omitempty"`
	Where   string `json:"where,omitempty"`
	Started int64  `json:"started_ns,omitempty"`
}

type momentJSON struct {
	Time   int64  `json:"time_ns"`
	Source string `json:"source"`
	Text   string `json:"text"`
}

func toChainRow(c *tick.Chain) (chainRow, error) {
	culprits, timeline, notIt := make([]culpritJSON, 0, len(c.Culprits)), make([]momentJSON, 0, len(c.Timeline)), c.NotIt
	for i := range c.Culprits {
		p := &c.Culprits[i]
		t := &p.Thread
		culprits = append(culprits, culpritJSON{t.PID, t.TID, t.Parent, t.Cgroup, t.Name.String(), p.Own, p.Agent,
			p.What, p.Cgroup, p.Cmdline, p.Where, p.Parent, p.Path, p.CPUs, p.At, p.Waited, int64(p.Lost), string(p.Root.Whose), string(p.Root.Did),
			p.Limit.Group, p.Limit.File, p.Limit.Raw, t.Start, p.GPU, toSharers(p.Sharers)})
	}
	for i := range c.Timeline {
		m := &c.Timeline[i]
		timeline = append(timeline, momentJSON{segment.UnixNano(m.Time), m.Source, m.Text})
	}
	if notIt == nil {
		notIt = []string{}
	}
	r := chainRow{id: c.ID, rule: c.Rule, severity: c.Severity.String(), pid: c.PID, tid: c.TID, op: c.Op, from: segment.UnixNano(c.From), to: segment.UnixNano(c.To),
		lost: c.Lost, lostMin: c.LostMin, lostMax: c.LostMax, window: c.Window, excess: c.Excess, steps: c.Steps, slow: c.Slow,
		confidence: c.Confidence, baseline: c.Baseline, stepP50: c.StepP50, stepP99: c.StepP99, without: c.Without, opP50: c.OpP50, opP99: c.OpP99}
	for _, part := range []struct {
		to   *string
		from any
	}{{&r.culprits, culprits}, {&r.timeline, timeline}, {&r.notIt, notIt}} {
		b, err := json.Marshal(part.from)
		if err != nil {
			return r, fmt.Errorf("chain %s: %w", c.ID, err)
		}
		*part.to = string(b)
	}
	return r, nil
}

// noteChains queues a tick's chains that the file lacks, and the file's chains that were revised
// away. They stay queued until they are written: later ticks may not have them.
func (v *saver) noteChains(chains []tick.Chain, now time.Time) error {
	listed := make(map[string]bool, len(chains))
	for i := range chains {
		row, err := toChainRow(&chains[i])
		if err != nil {
			return err
		}
		listed[row.id] = true
		delete(v.revised, row.id)
		_, queued := v.waiting[row.id]
		switch {
		case v.chains[row.id] == row:
		case !queued && len(v.waiting) >= maxFacts:
			v.leftOut++
		default:
			v.waiting[row.id] = row
		}
	}
	for id, row := range v.waiting {
		if !listed[id] && !row.over(now) {
			delete(v.waiting, id)
		}
	}
	for id, row := range v.chains { // chains that are over are dropped here only
		if listed[id] {
			continue
		}
		delete(v.chains, id)
		if !row.over(now) {
			v.revised[id] = true
		}
	}
	return nil
}

func (r *chainRow) over(now time.Time) bool {
	c := tick.Chain{To: segment.FromUnixNano(r.to)}
	return c.Over(now)
}

// revise deletes a chain's row.
func (v *saving) revise(id string) error {
	if err := v.exec(&sqlRevised, v.id, id); err != nil {
		return err
	}
	v.done = append(v.done, func() { delete(v.revised, id) })
	return nil
}

func (v *saving) chain(r chainRow) error {
	var confidence any
	if !math.IsNaN(r.confidence) {
		confidence = r.confidence
	}
	name := ""
	if r.op != 0 {
		name = r.op.String()
	}
	err := v.exec(&sqlChain, v.id, r.id, r.rule, r.severity, r.pid, r.tid, uint16(r.op), name, null(r.from), null(r.to),
		int64(r.lost), int64(r.lostMin), int64(r.lostMax), int64(r.window), int64(r.excess), r.steps, r.slow, confidence, r.baseline,
		null(int64(r.stepP50)), null(int64(r.stepP99)), null(int64(r.without)), null(int64(r.opP50)), null(int64(r.opP99)),
		r.culprits, r.timeline, r.notIt)
	if err != nil {
		return err
	}
	v.done = append(v.done, func() {
		v.chains[r.id] = r
		delete(v.waiting, r.id)
	})
	return nil
}

// UnmarshalChain sets the fields of c that the database stores in JSON columns.
func UnmarshalChain(c *tick.Chain, culprits, timeline, notIt []byte) error {
	var who []culpritJSON
	var when []momentJSON
	for _, part := range []struct {
		from []byte
		to   any
	}{{culprits, &who}, {timeline, &when}, {notIt, &c.NotIt}} {
		if err := json.Unmarshal(part.from, part.to); err != nil {
			return fmt.Errorf("chain %s: %w: %w", c.ID, log.ErrCorrupt, err)
		}
	}
	for i := range who {
		j := &who[i]
		c.Culprits = append(c.Culprits, tick.Culprit{
			Thread: events.Thread{PID: j.PID, TID: j.TID, Parent: j.PPID, Start: j.Start, Cgroup: j.CgroupID, Name: events.NameOf(j.Comm)},
			Root:   tick.Root{Whose: tick.Relation(j.Whose), Did: tick.Activity(j.Did)}, Limit: tick.Limit{Group: j.Group, File: j.File, Raw: j.Raw},
			Own: j.Own, Agent: j.Agent, What: j.What, Cgroup: j.Cgroup, Cmdline: j.Cmdline, Where: j.Where, Parent: j.Parent, Path: j.Path, CPUs: j.CPUs, At: j.At, Waited: j.Waited, Lost: time.Duration(j.Lost), GPU: j.GPU, Sharers: fromSharers(j.Sharers)})
	}
	for _, m := range when {
		c.Timeline = append(c.Timeline, tick.Moment{Time: segment.FromUnixNano(m.Time), Source: m.Source, Text: m.Text})
	}
	if len(c.NotIt) == 0 {
		c.NotIt = nil
	}
	return nil
}

func toSharers(list []tick.Sharer) (out []sharerJSON) {
	for _, x := range list {
		out = append(out, sharerJSON{x.PID, x.Comm, x.Cmdline, x.Where, segment.UnixNano(x.Started)})
	}
	return out
}

func fromSharers(list []sharerJSON) (out []tick.Sharer) {
	for _, x := range list {
		out = append(out, tick.Sharer{PID: x.PID, Comm: x.Comm, Cmdline: x.Cmdline, Where: x.Where, Started: segment.FromUnixNano(x.Started)})
	}
	return out
}

// ChainSum returns a checksum of chains that does not depend on their order. It is 0 for none.
func ChainSum(chains []tick.Chain) (uint64, error) {
	if len(chains) == 0 {
		return 0, nil
	}
	h := fnv.New64a()
	for _, c := range slices.SortedFunc(slices.Values(chains), func(a, b tick.Chain) int { return cmp.Compare(a.ID, b.ID) }) {
		row, err := toChainRow(&c)
		if err != nil {
			return 0, err
		}
		fmt.Fprintf(h, "%v|%s|%v\n", row, c.At, c.Spread)
	}
	return h.Sum64() | 1, nil
}
