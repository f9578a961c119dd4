package metric

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"ingero/internal/tick"
)

// silent is how long the state of an inference server counts after its last read. Tries of a server
// that cannot be read are up to 72 s apart.
const silent = 2 * time.Minute

// inference sums up the reads of inference servers by engine and model, which are the labels.
type inference struct {
	last   map[serverKey]tick.Inference // last read of each server
	growth map[modelKey]*growth
}

type serverKey struct {
	pid uint32
	url string
}

type modelKey struct{ engine, model string }

// growth is the growth of counters since the session began.
type growth struct{ preemptions, prompt, generated *float64 }

func (c *inference) init() {
	c.last, c.growth = map[serverKey]tick.Inference{}, map[modelKey]*growth{}
}

// servers makes the points of inference servers. Servers with one engine and model have one series:
// the sum of their requests, and the fullest KV cache.
func (m *Meter) servers(t *tick.Tick) {
	c := &m.inference
	for i := range t.Inference {
		c.add(&t.Inference[i], m)
	}
	state := map[modelKey]*tick.Inference{}
	unreadable := map[modelKey]float64{}
	for k, x := range c.last {
		if t.Time.Sub(x.Time) > silent {
			delete(c.last, k)
			continue
		}
		by := c.key(&x)
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
	for _, k := range sortedKeys(c.growth) {
		g := c.growth[k]
		m.known(InferencePreemptions, g.preemptions, k.engine, k.model)
		m.known(InferenceTokens, g.prompt, "prompt", k.engine, k.model)
		m.known(InferenceTokens, g.generated, "generated", k.engine, k.model)
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
	if _, known := c.last[k]; known || len(c.last) < mostModels {
		c.last[k] = *x
	}
	by := modelKey{text(x.Engine), text(x.Model)}
	if c.growth[by] == nil {
		if len(c.growth) >= mostModels-1 {
			m.over[InferenceTokens]++
			by = modelKey{Other, Other}
		}
		if c.growth[by] == nil {
			c.growth[by] = &growth{}
		}
	}
	g := c.growth[by]
	g.preemptions, g.prompt, g.generated = added(g.preemptions, x.Preemptions), added(g.prompt, x.PromptTokens), added(g.generated, x.GeneratedTokens)
}

// key returns the labels of a server.
func (c *inference) key(x *tick.Inference) modelKey {
	if k := (modelKey{text(x.Engine), text(x.Model)}); c.growth[k] != nil {
		return k
	}
	return modelKey{Other, Other}
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
