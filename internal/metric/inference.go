package metric

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"ingero/internal/tick"
)

// How long the state of an inference server counts after its last read: after a successful one, and after
// one that failed. Reads of a server that answers are 5 s apart, tries of one that cannot be read up to
// 72 s. A server that ended has no more reads.
const (
	silent       = 15 * time.Second
	silentFailed = 2 * time.Minute
)

// inference sums up the reads of inference servers by engine and model, which are the labels.
type inference struct {
	last   map[serverKey]*serverState // of each server
	growth slots[modelKey, growth]
}

type serverKey struct {
	pid uint32
	url string
}

// serverState is the last read of a server.
type serverState struct {
	tick.Inference
	listed bool // its process was in a tick
}

type modelKey struct{ engine, model string }

var otherModel = modelKey{Other, Other}

// growth is the growth of counters since the session began.
type growth struct{ preemptions, prompt, generated *float64 }

func (c *inference) init() {
	c.last, c.growth = map[serverKey]*serverState{}, newSlots[modelKey, growth](mostModels, otherModel)
}

// servers makes the points of inference servers. Servers with one engine and model have one series:
// the sum of their requests, and the fullest KV cache.
func (m *Meter) servers(t *tick.Tick) {
	c := &m.inference
	for i := range t.Inference {
		c.add(&t.Inference[i], m)
	}
	c.forget(t)
	state := map[modelKey]*tick.Inference{}
	unreadable := map[modelKey]float64{}
	for _, x := range c.last {
		by := c.key(&x.Inference)
		if state[by] == nil {
			state[by] = &tick.Inference{}
		}
		s := state[by]
		s.Running, s.Waiting = added(s.Running, x.Running), added(s.Waiting, x.Waiting)
		if x.KVCache != nil && (s.KVCache == nil || *s.KVCache < *x.KVCache) {
			s.KVCache = x.KVCache
		}
		if x.Why != "" {
			unreadable[by]++
		}
	}
	for _, k := range sortedKeys(state) {
		s := state[k]
		m.known(InferenceRequests, s.Running, "running", k.engine, k.model)
		m.known(InferenceRequests, s.Waiting, "waiting", k.engine, k.model)
		m.known(InferenceKVCache, s.KVCache, k.engine, k.model)
		m.set(InferenceUnreadable, unreadable[k], k.engine, k.model)
	}
	for _, k := range sortedKeys(c.growth.states) {
		g := c.growth.states[k]
		m.known(InferencePreemptions, g.preemptions, k.engine, k.model)
		m.known(InferenceTokens, g.prompt, "prompt", k.engine, k.model)
		m.known(InferenceTokens, g.generated, "generated", k.engine, k.model)
	}
}

// forget deletes the state of servers that ended or are silent. The process of an endpoint that the
// user named may be unknown.
func (c *inference) forget(t *tick.Tick) {
	if len(c.last) == 0 {
		return
	}
	alive := make(map[uint32]bool, len(t.Processes)+len(t.Others))
	for _, list := range [...][]tick.Process{t.Processes, t.Others} {
		for i := range list {
			alive[list[i].PID] = list[i].Ended.IsZero()
		}
	}
	for k, x := range c.last {
		lives, listed := alive[k.pid]
		most := silent
		if x.Why != "" {
			most = silentFailed
		}
		if t.Time.Sub(x.Time) > most || listed && !lives || !listed && x.listed {
			delete(c.last, k)
			continue
		}
		x.listed = x.listed || listed
	}
}

func sortedKeys[T any](all map[modelKey]T) []modelKey {
	return slices.SortedFunc(maps.Keys(all), func(a, b modelKey) int {
		return cmp.Or(cmp.Compare(a.engine, b.engine), cmp.Compare(a.model, b.model))
	})
}

// add takes in a read. Beyond the limit, models are counted as other.
func (c *inference) add(x *tick.Inference, m *Meter) {
	k := serverKey{x.PID, x.URL}
	if s := c.last[k]; s != nil {
		s.Inference = *x
	} else if len(c.last) < mostModels {
		c.last[k] = &serverState{Inference: *x}
	}
	g, own := c.growth.use(modelKey{text(x.Engine), text(x.Model)}, m.time)
	if !own {
		m.over[InferenceTokens]++
	}
	g.preemptions, g.prompt, g.generated = added(g.preemptions, x.Preemptions), added(g.prompt, x.PromptTokens), added(g.generated, x.GeneratedTokens)
}

// key returns the labels of a server.
func (c *inference) key(x *tick.Inference) modelKey {
	if k := (modelKey{text(x.Engine), text(x.Model)}); c.growth.states[k] != nil {
		return k
	}
	return otherModel
}

// added returns the sum of two values; nil is unknown, and adds nothing.
func added(sum, x *float64) *float64 {
	switch {
	case x == nil:
		return sum
	case sum == nil:
		return new(*x)
	}
	return new(*sum + *x)
}

// known appends a point, unless the value is unknown.
func (m *Meter) known(id ID, v *float64, labels ...string) {
	if v != nil {
		m.set(id, *v, labels...)
	}
}
