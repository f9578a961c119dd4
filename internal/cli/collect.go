package cli

import (
	"maps"
	"slices"
	"time"

	"ingero/internal/explain"
	"ingero/internal/query"
	"ingero/internal/tick"
)

// collector collects ticks for the report at the end of a trace. It implements tick.Sink.
type collector struct {
	lastTickOnly bool         // the report covers only the processes that the last tick reports
	gaps         tick.Gaps    // nil: not collected
	within       query.Ranges // of labels; nil: nothing is restricted
	unread       unread       // of the recording
	last         tick.Tick
	// The last account of each process and the last state of each chain. Later ticks omit
	// those that ended long ago.
	accounts map[uint32]tick.Breakdown
	chains   map[string]tick.Chain
	costs    costs // costs of chains with finished episodes
	host     tick.HostSums
	requests explain.Requests
	xids     []tick.Xid
	servers  tick.Servers
	busy     float64 // sum over ticks of the machine's busy share
	ticks    int
	machine  tick.Host // its last known state

	// With ranges: the account of each process in the last tick, the time that accounts covers, and
	// the number of each process's chains that lie only partly in them.
	was    map[uint32]tick.Breakdown
	known  map[uint32]time.Duration
	partly map[uint32]int
}

// maxKept limits each of: chains, accounts, costs, faults.
const maxKept = 1 << 14

// moreAccounts is how many accounts of unreported processes are kept before a cleanup.
const moreAccounts = 256

// Batch implements [tick.Sink].
func (c *collector) Batch(b *tick.Batch) error {
	if c.gaps != nil {
		for i := range b.Calls {
			c.gaps.Add(&b.Calls[i])
		}
	}
	return nil
}

// WantsBatches reports whether the calls are needed.
func (c *collector) WantsBatches() bool { return c.gaps != nil }

// Tick implements [tick.Sink].
func (c *collector) Tick(t *tick.Tick) error {
	if c.within != nil {
		t = c.restricted(t)
	}
	c.last = *t
	if c.accounts == nil {
		c.accounts, c.chains, c.costs = map[uint32]tick.Breakdown{}, map[string]tick.Chain{}, costs{}
	}
	c.account(t)
	c.keep(t)
	for i := range t.Episodes {
		if e := &t.Episodes[i]; e.Kind == tick.EpisodeEnd && len(c.costs) < maxKept {
			c.costs.add(e.Chain.ID, e.Lost, e.From, e.To)
		}
	}
	c.host.Add(t.HostSums)
	c.requests.Add(t)
	c.xids = append(c.xids, t.Xids[:min(len(t.Xids), maxKept-len(c.xids))]...)
	c.servers.Add(t.Inference)
	if t.Host.CPUs > 0 {
		c.busy, c.machine = c.busy+t.Host.CPU, t.Host
		c.ticks++
	}
	return nil
}

// account updates the accounts. If only reported processes are needed, it removes the
// accounts of all others, many at once.
func (c *collector) account(t *tick.Tick) {
	for i := range t.Breakdowns {
		b := &t.Breakdowns[i]
		if _, known := c.accounts[b.PID]; known || c.lastTickOnly || len(c.accounts) < maxKept {
			c.accounts[b.PID] = *b
		}
	}
	if !c.lastTickOnly || len(c.accounts) <= len(t.Breakdowns)+len(t.Processes)+moreAccounts {
		return
	}
	reported := t.PIDs()
	maps.DeleteFunc(c.accounts, func(pid uint32, _ tick.Breakdown) bool { return !reported[pid] })
}

// keep updates the chains.
func (c *collector) keep(t *tick.Tick) {
	now := map[string]bool{}
	for i := range t.Chains {
		x := &t.Chains[i]
		now[x.ID] = true
		if _, known := c.chains[x.ID]; known || len(c.chains) < maxKept {
			c.chains[x.ID] = *x
		}
	}
	for id, x := range c.chains {
		if !now[id] && !x.Over(t.Time) {
			delete(c.chains, id)
		}
	}
}

// Close implements [tick.Sink].
func (c *collector) Close() error { return nil }

// input returns the input of a report.
func (c *collector) input(node, source string) *explain.Input {
	t := &c.last
	in := &explain.Input{From: t.Started, To: t.Time, Node: node, Source: source, Processes: t.Processes, Ops: t.Ops,
		Gaps: c.gaps, Drops: t.Drops, Reports: t.Reports, Self: &t.Self}
	in.Memory = map[uint32]tick.Memory{}
	for i := range t.States {
		in.Memory[t.States[i].PID] = t.States[i].Memory
	}
	in.Xids, in.GPUs, in.Servers = c.xids, len(t.GPUs), c.servers.List()
	c.setTotalCosts(in.From, in.To)
	c.ledger(in, nil)
	return in
}

// setTotalCosts sets the costs of each chain to those between from and to, instead of those of its
// last minute. Chains that were over before are dropped. With ranges, only the chains that lie in them
// are kept.
func (c *collector) setTotalCosts(from, to time.Time) {
	maps.DeleteFunc(c.chains, func(_ string, x tick.Chain) bool { return !x.To.IsZero() && x.To.Before(from) })
	kept, partly := c.costs.lying(slices.Collect(maps.Values(c.chains)), c.within, from, to)
	clear(c.chains)
	for _, x := range kept {
		c.chains[x.ID] = x
	}
	c.partly = partly
}

// ledger adds the time ledger's results for some processes (empty pids: all) to the input
// of a report.
func (c *collector) ledger(in *explain.Input, pids []uint32) {
	wanted := func(pid uint32) bool { return len(pids) == 0 || slices.Contains(pids, pid) }
	for _, pid := range slices.Sorted(maps.Keys(c.accounts)) {
		if wanted(pid) {
			in.Breakdowns = append(in.Breakdowns, c.accounts[pid])
		}
	}
	for _, x := range c.chains {
		if wanted(x.PID) {
			in.Chains = append(in.Chains, x)
		}
	}
	if in.Labels != nil {
		in.Labels.AddPartly(c.partly)
		for pid, d := range c.known {
			in.Labels.Known[pid] += d
		}
	}
	tick.SortChains(in.Chains)
	for i := range c.last.Threads {
		if x := &c.last.Threads[i]; wanted(x.PID) {
			in.Threads = append(in.Threads, *x)
		}
	}
	for i := range c.last.Launches {
		if x := &c.last.Launches[i]; wanted(x.PID) {
			in.Launches = append(in.Launches, *x)
		}
	}
	in.HostSums = c.host.List()
	if in.Requests == nil {
		in.Requests = &c.requests
	}
	if c.ticks > 0 {
		host := c.machine
		host.CPU = c.busy / float64(c.ticks)
		in.Host = &host
	}
}
