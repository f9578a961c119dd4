package stats

// Durations has the known durations of an operation's calls, from the records and from the kernel's
// count of all calls. It implements the rule that selects one of them.
type Durations struct {
	Seen *Sketch // from the records, by weight
	All  *Hist   // from all calls that returned; may be nil
	// Thinned means that Seen lacks calls that All has.
	Thinned bool
}

// Quantile returns the smallest duration, in nanoseconds, that at least the share q of all calls
// does not exceed. ok is false if no call is known to have returned. The longest (q >= 1) is exact
// unless the record of the longest call is missing.
func (d Durations) Quantile(q float64) (ns int64, ok bool) {
	if !d.Thinned || d.All == nil {
		if d.Seen == nil || d.Seen.Count() == 0 {
			return 0, false
		}
		return d.Seen.Quantile(q), true
	}
	ns, ok = d.All.Quantile(q), d.All.Count() > 0
	if q >= 1 && d.Seen != nil {
		if seen := d.Seen.Max(); HistIndex(uint64(seen)) >= HistIndex(uint64(ns)) {
			ns = seen
		}
	}
	return ns, ok
}
