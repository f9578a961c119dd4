package metric

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"ingero/internal/causal"
	"ingero/internal/tick"
)

// chains sums up the causes of lost time.
type chains struct {
	counts     map[graded]*counted
	lost       slots[causeKey, counted]
	episodes   map[string]*episode // open ones, by ID
	revised    uint64
	stragglers slots[string, time.Duration] // by rank
}

type graded struct {
	rule     string
	severity tick.Severity
}

type causeKey struct {
	pid           uint32 // 0: processes without series of their own
	rule, culprit string
}

type counted struct {
	n         uint64 // chains, or ns
	exemplars []Exemplar
}

type episode struct {
	graded
	reported time.Duration // reported loss
}

const mostEpisodes = 1024

func (c *chains) init() {
	c.counts, c.lost = map[graded]*counted{}, newSlots[causeKey, counted](mostCauses+1, causeKey{rule: Other, culprit: Other})
	for _, rule := range causal.RuleNames() { // rate functions need an initial value
		for s := tick.Low; s <= tick.High; s++ {
			c.counts[graded{rule, s}] = &counted{}
		}
	}
	c.episodes, c.stragglers = map[string]*episode{}, newSlots[string, time.Duration](mostRanks+1, Other)
}

// anomalies handles a tick's episode events, and makes the causes' points.
func (m *Meter) anomalies(t *tick.Tick) {
	c := &m.chains
	for i := range t.Episodes {
		if e := &t.Episodes[i]; !e.Hidden {
			m.episode(e)
		}
	}
	for i := range t.Chains {
		m.link(&t.Chains[i])
	}
	for k, x := range c.counts {
		m.point(Anomalies, Point{Labels: []string{k.rule, k.severity.String()}, Value: float64(x.n), Exemplars: fresh(x.exemplars)})
	}
	active := map[graded]int{}
	for k, x := range c.counts {
		if x.n > 0 {
			active[k] = 0
		}
	}
	for _, e := range c.episodes {
		active[e.graded]++
	}
	for k, n := range active {
		m.set(AnomaliesActive, float64(n), k.rule, k.severity.String())
	}
	m.set(AnomaliesRevised, float64(c.revised))
	for k, x := range c.lost.states {
		p := m.procs.byPID[k.pid]
		if p == nil {
			p = &m.procs.others
		}
		m.point(AnomalyLost, Point{Labels: p.withLabels(k.rule, k.culprit), Value: seconds(x.n), Exemplars: fresh(x.exemplars)})
	}
	m.ranks(t)
}

// episode handles one episode event.
func (m *Meter) episode(e *tick.Episode) {
	c := &m.chains
	was := c.episodes[e.ID]
	if e.Kind == tick.EpisodeRevised {
		if was != nil {
			delete(c.episodes, e.ID)
			c.revised++
			m.unlink(e.Chain.ID)
		}
		return
	}
	if was == nil {
		if len(c.episodes) >= mostEpisodes {
			m.over[Anomalies]++
			return
		}
		was = &episode{}
		c.episodes[e.ID] = was
	}
	for s := max(was.severity+1, tick.Low); s <= e.Severity; s++ {
		if was.severity != 0 || s == e.Severity { // at first the current severity, then each that it reaches
			c.count(graded{e.Chain.Rule, s}, &e.Chain)
		}
	}
	was.graded = graded{e.Chain.Rule, max(was.severity, e.Severity)}
	if e.Lost > was.reported {
		m.lose(&e.Chain, e.Lost-was.reported)
		was.reported = e.Lost
	}
	if e.Kind == tick.EpisodeEnd {
		delete(c.episodes, e.ID)
	}
}

// count counts a chain.
func (c *chains) count(k graded, chain *tick.Chain) {
	x := c.counts[k]
	if x == nil {
		x = &counted{}
		c.counts[k] = x
	}
	x.n++
	x.exemplars = exemplar(x.exemplars, Exemplar{Chain: chain.ID, Rule: chain.Rule, Value: 1, Time: chain.To})
}

// lose adds a chain's loss.
func (m *Meter) lose(chain *tick.Chain, lost time.Duration) {
	c := &m.chains
	k := causeKey{chain.PID, chain.Rule, text(chain.Culprit())}
	if m.procs.byPID[k.pid] == nil {
		k.pid = 0
	}
	x, own := c.lost.use(k, m.time)
	if !own {
		m.over[AnomalyLost]++
	}
	x.n += uint64(lost)
	x.exemplars = exemplar(x.exemplars, exemplarAt(chain, lost))
}

// link makes a chain an exemplar of its calls' durations.
func (m *Meter) link(c *tick.Chain) {
	if x := m.ops.byOp[c.Op]; x != nil && c.OpP99 > 0 {
		x.exemplars = exemplar(x.exemplars, exemplarAt(c, c.OpP99))
	}
}

// unlink removes a revised chain from the exemplars.
func (m *Meter) unlink(chain string) {
	for _, x := range m.chains.counts {
		x.exemplars = without(x.exemplars, chain)
	}
	for _, x := range m.chains.lost.states {
		x.exemplars = without(x.exemplars, chain)
	}
	for _, x := range m.ops.byOp {
		x.exemplars = without(x.exemplars, chain)
	}
}

// retire forgets a process's losses.
func (c *chains) retire(pid uint32) {
	for k := range c.lost.states {
		if k.pid == pid {
			c.lost.drop(k)
		}
	}
}

// jobRank returns a rank's number in its job, or else in its communicator: a process has other numbers
// in the groups of tensor and data parallelism.
func jobRank(t *tick.Tick, r tick.Rank) string {
	at := slices.IndexFunc(t.Processes, func(p tick.Process) bool { return p.PID == r.PID })
	if at >= 0 && t.Processes[at].Rank != 0 && !inherited(t, &t.Processes[at]) {
		return t.Processes[at].Rank.String()
	}
	if r.Rank < 0 {
		return "unknown"
	}
	return strconv.Itoa(int(r.Rank))
}

// inherited reports whether a process has its rank from a parent's variables: the launcher started fewer ranks
// than each of its communicators has. Examples are the workers of a server that srun --ntasks=1 started. A
// communicator in which the process has several ranks shows nothing: it has more ranks than processes.
func inherited(t *tick.Tick, p *tick.Process) bool {
	size, known := p.WorldSize.Value()
	i, found := slices.BinarySearchFunc(t.States, p.PID, func(s tick.State, pid uint32) int { return cmp.Compare(s.PID, pid) })
	if !known || !found {
		return false
	}
	comms := t.States[i].Comms.First
	own := map[uint64]int{} // ranks of the process in each communicator
	for k := range comms {
		own[comms[k].ID]++
	}
	least := uint32(0) // ranks of the smallest communicator that has several
	for k := range comms {
		if c := &comms[k]; c.ID != 0 && own[c.ID] == 1 && c.Ranks > 1 && (least == 0 || c.Ranks < least) {
			least = c.Ranks
		}
	}
	return least > size
}

// ranks makes the points of ranks that others wait for.
func (m *Meter) ranks(t *tick.Tick) {
	longest := time.Duration(0)
	for i := range t.RollCalls {
		longest = max(longest, t.Time.Sub(time.Unix(0, t.RollCalls[i].Since)))
	}
	m.set(RollCallAge, longest.Seconds())
	late := &m.chains.stragglers
	for i := range t.Lates {
		x := &t.Lates[i]
		sum, own := late.use(jobRank(t, x.Rank), m.time)
		if !own {
			m.over[RankLate]++
		}
		*sum += time.Duration(max(x.To-x.From, 0))
	}
	for rank, d := range late.states {
		m.set(RankLate, d.Seconds(), rank)
	}
}
