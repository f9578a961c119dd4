package stats

// Durations are what is known of how long the calls of an operation took: the
// records that were seen and the kernel's count of all. It has the one rule for
// which of them answers.
type Durations struct {
	Seen *Sketch // of the records, by weight
	All  *Hist   // of all calls that returned; may be nil
	// Thinned says that Seen lacks calls that All has.
	Thinned bool
}

// coarse says whether the histogram answers.
func (d Durations) coarse() bool { return d.Thinned && d.All != nil }

// Quantile returns the duration in nanoseconds that the share q of all calls is
// not longer than; ok is false when no call is known to have returned. The
// longest (q >= 1) is exact unless the record of the longest call is missing.
func (d Durations) Quantile(q float64) (ns int64, ok bool) {
	if !d.coarse() {
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

// Error returns the largest relative error of Quantile for 0 < q < 1.
func (d Durations) Error() float64 {
	if d.coarse() {
		return HistError
	}
	return SketchError
}
