package metric

import "time"

// stale is how long labels must have been unused before they may be evicted.
const stale = 30 * time.Minute

// slots has the state of the series of each set of labels K. The number of sets is bounded: at the limit,
// the set that was unused for longest is evicted if it is stale. Otherwise new sets share one state.
type slots[K comparable, V any] struct {
	most   int
	others K
	states map[K]*V        // includes the shared one
	used   map[K]time.Time // last use; without the shared one
	ended  map[K]time.Time // when sets were evicted
}

func newSlots[K comparable, V any](most int, others K) slots[K, V] {
	return slots[K, V]{most: most, others: others, states: map[K]*V{}, used: map[K]time.Time{}, ended: map[K]time.Time{}}
}

// use returns the state of a set of labels, and whether it is the set's own. Series that ended stay
// away for a while: a scraper must not see a counter that fell.
func (s *slots[K, V]) use(k K, now time.Time) (state *V, own bool) {
	own = true
	if _, known := s.used[k]; !known && k != s.others {
		end, was := s.ended[k]
		own = (!was || now.Sub(end) > linger) && (len(s.used) < s.most-1 || s.evict(now))
	}
	switch {
	case !own:
		k = s.others
	case k != s.others:
		s.used[k] = now
		delete(s.ended, k)
	}
	if s.states[k] == nil {
		s.states[k] = new(V)
	}
	return s.states[k], own
}

// evict evicts the set that was unused for longest, if it is stale.
func (s *slots[K, V]) evict(now time.Time) bool {
	var oldest K
	at := now
	for k, used := range s.used {
		if used.Before(at) {
			oldest, at = k, used
		}
	}
	if now.Sub(at) <= stale {
		return false
	}
	for k, end := range s.ended {
		if now.Sub(end) > linger {
			delete(s.ended, k)
		}
	}
	s.drop(oldest)
	s.ended[oldest] = now
	return true
}

// drop forgets a set of labels.
func (s *slots[K, V]) drop(k K) {
	delete(s.states, k)
	delete(s.used, k)
}
