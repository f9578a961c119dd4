package symbols

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// lifeWait is how long a fork, exec or exit waits for calls from before it.
const lifeWait = 2 * time.Second

// Names is the table of launched functions. It is not safe for concurrent use.
type Names struct {
	work    *worker // nil: a replay, which learns only from recorded functions
	procs   map[uint32]*process
	last    *process // process of the previous call
	lives   []life
	due     map[uint32][]int // waiting events, as indices into lives, by process
	texts   texts
	words   words
	regs    int // registrations of all processes
	out     []request
	found   []events.Function // functions found by the current call
	results []result
	ended   map[uint32]*process // ended processes, kept for their figures
	order   []uint32            // keys of ended, oldest first
}

// New returns an empty table. With r nil its names come from the batches alone. Close it after use.
func New(r Reader) *Names {
	n := &Names{procs: map[uint32]*process{}, due: map[uint32][]int{}, ended: map[uint32]*process{}, texts: texts{}, words: newWords()}
	if r != nil {
		n.work = startWorker(r)
	}
	return n
}

// Close stops the worker, after its current call of the Reader has returned. It abandons a call that
// hangs, as a read of a process's memory may.
func (n *Names) Close() {
	if n.work != nil {
		n.work.close()
	}
}

// Batch learns from a batch's texts, lives, functions and calls, and counts launches. It returns
// the functions that have become known, valid until the next call.
func (n *Names) Batch(texts []events.Text, lives []tick.ProcEvent, functions []events.Function, calls []events.Call) []events.Function {
	n.found = n.found[:0]
	n.texts.add(texts)
	if n.work != nil { // in a replay a handle's recorded function begins when its process does
		for _, e := range lives {
			n.wait(lifeOf(e))
		}
	}
	for i := range functions {
		n.addRecorded(&functions[i])
	}
	n.answers()
	for i := range calls {
		c := &calls[i]
		if a := actionFor(c.Op); a.kind != kindNone {
			n.call(c, a)
		}
	}
	n.request()
	return n.found
}

func (n *Names) request() {
	if len(n.out) > 0 {
		n.refuse(n.work.enqueue(n.out))
		clear(n.out)
		n.out = n.out[:0]
	}
}

// Settle waits for pending requests and returns their functions, as Batch does. When ctx is done,
// it gives up on the rest.
func (n *Names) Settle(ctx context.Context) []events.Function {
	n.found = n.found[:0]
	for n.work != nil && n.work.settle(ctx) {
		n.answers()
		if len(n.out) == 0 {
			break
		}
		n.request() // an answer may lead to another request
	}
	return n.found
}

// call handles a call that affects names.
func (n *Names) call(c *events.Call, a action) {
	if a.kind == kindLaunch || a.kind == kindSeveral {
		if launches(c, a.kind) {
			n.launch(n.process(c.PID, c.Start), c, a)
		}
		return
	}
	if n.work == nil {
		return
	}
	var text string
	if a.kind == kindDefine {
		text = n.texts.take(c)
	}
	if c.Flags&events.CallFailed != 0 {
		return
	}
	p := n.process(c.PID, c.Start)
	owner, _ := c.Value(a.owner)
	if a.kind == kindUnload {
		n.unload(p, owner, c.Start)
		return
	}
	handle, known := c.Value(a.handle)
	if !known || handle == 0 {
		return
	}
	r := reg{since: c.Start, owner: owner}
	switch {
	case a.kind == kindAlias:
		r.alias = true
		if r.value, _ = c.Value(a.target); r.value == handle { // the handle is the function itself
			return
		}
	case text != "":
		r.name = n.words.id(text)
	case !a.text:
		r.value, _ = c.Value(events.RoleName)
	}
	n.define(p, handle, r)
}

// define sets the meaning of a handle from now on.
func (n *Names) define(p *process, handle uint64, r reg) {
	old, known := p.regs[handle]
	switch {
	case known && old.same(r) && !p.renewed(old):
		return
	case known:
		p.leave(handle, old, r.since)
	case len(p.regs) >= maxRegs || n.regs >= maxAllRegs:
		p.full = true
		return
	default:
		n.regs++
	}
	p.regs[handle] = r
	p.forget(handle)
	if r.name == 0 && r.value != 0 && !r.alias && p.eager < eagerNames && n.work != nil {
		p.eager++
		n.out = append(n.out, request{p: p, handle: handle, named: handle, at: r.value, seen: r.since})
	}
}

// unload forgets the handles of a module or library.
func (n *Names) unload(p *process, owner uint64, at int64) {
	if owner == 0 {
		return
	}
	p.changed = at
	for handle, r := range p.regs {
		if r.owner == owner {
			p.leave(handle, r, at)
			p.forget(handle)
			delete(p.regs, handle)
			n.regs--
		}
	}
}

// launch counts a launch, and resolves its function if necessary.
func (n *Names) launch(p *process, c *events.Call, a action) {
	if a.kind == kindSeveral {
		count(p.tally(answer{reason: events.NoNameSeveral}), c)
		return
	}
	handle, _ := c.Value(a.handle)
	f := p.last
	if f == nil || p.at != handle {
		if f = p.funcs[handle]; f == nil {
			if len(p.funcs) >= maxFuncs {
				count(p.tally(answer{reason: events.NoNameFull}), c)
				return
			}
			f = &function{tally: &tally{}}
			p.funcs[handle] = f
			p.wait++
			n.resolve(p, handle, f, c.Start)
		}
		p.last, p.at = f, handle
	}
	for len(f.next) > 0 && f.next[0].since <= c.Start {
		p.mean(f, f.next[0])
		f.next = f.next[1:]
	}
	count(f.tally, c)
}

func count(t *tally, c *events.Call) {
	w := uint64(max(c.Weight, 1))
	t.launches += w
	if c.Flags&events.CallUnmeasured == 0 {
		t.timed += w
		t.ns += w * uint64(max(c.Duration, 0))
	}
}

// resolve resolves a handle that is launched for the first time, or queues a request for its name.
func (n *Names) resolve(p *process, handle uint64, f *function, seen int64) {
	if n.work == nil {
		return // the recording has the name
	}
	named := handle
	r, known := p.find(handle)
	since := r.since
	for range maxAlias {
		if !known || !r.alias {
			break
		}
		named = r.value
		r, known = p.find(named)
		since = max(since, r.since)
	}
	f.since = since
	if !known { // for an alias, the symbol of its target
		f.since = max(since, p.since, p.changed)
	}
	switch {
	case known && r.name != 0:
		n.settle(p, handle, f, answer{name: r.name})
	case known && r.alias, known && r.value == 0:
		n.settle(p, handle, f, answer{reason: events.NoNameUnread})
	case known:
		n.out = append(n.out, request{p: p, handle: handle, named: named, at: r.value, seen: seen})
	default:
		n.out = append(n.out, request{p: p, handle: handle, named: named, at: named, symbol: true, seen: seen})
	}
}

// settle reports the function of a handle.
func (n *Names) settle(p *process, handle uint64, f *function, a answer) {
	if f.state == stateWaiting {
		p.wait--
		f.state = stateKnown
	}
	f.reported = a
	t := p.tally(a)
	t.add(f.tally)
	f.tally = t
	n.found = append(n.found, events.Function{Time: f.since, Handle: handle, Name: n.words.text(a.name), PID: p.pid, Why: a.reason})
}

// addRecorded adds a recorded function. It may come before or after the handle's first launch.
func (n *Names) addRecorded(f *events.Function) {
	if n.work != nil {
		return
	}
	p := n.process(f.PID, f.Time)
	a := answer{reason: f.Why}
	if f.Why == 0 {
		if a.name = n.words.id(f.Name); a.name == 0 {
			a.reason = events.NoNameFull
		}
	}
	x := p.funcs[f.Handle]
	switch {
	case x == nil && len(p.funcs) >= maxFuncs:
		return
	case x == nil:
		x = &function{tally: &tally{}}
		p.funcs[f.Handle] = x
	case x.state == stateWaiting:
		p.wait--
	case x.reported != a || len(x.next) > 0: // calls from before may still come
		x.next = append(x.next, meaning{f.Time, a})
		return
	default:
		return
	}
	p.mean(x, meaning{f.Time, a})
}

// mean counts a function's launches under a new meaning from now on.
func (p *process) mean(f *function, m meaning) {
	if f.state == stateKnown { // the earlier counts are another function's
		f.tally = &tally{}
	}
	f.state, f.reported, f.since = stateKnown, m.answer, m.since
	t := p.tally(m.answer)
	t.add(f.tally)
	f.tally = t
}

// Tick returns the launches of each process.
func (n *Names) Tick(now time.Time, final bool) (out []tick.Launches) {
	switch {
	case final:
		n.liveAll(math.MaxInt64)
	case len(n.lives) > 0:
		n.liveAll(now.Add(-lifeWait).UnixNano())
	}
	for _, all := range []map[uint32]*process{n.ended, n.procs} {
		for _, p := range all {
			if l := p.figures(&n.words); l.Launches > 0 {
				out = append(out, l)
			}
		}
	}
	slices.SortFunc(out, func(a, b tick.Launches) int { return cmp.Compare(a.PID, b.PID) })
	n.sweep()
	return out
}
