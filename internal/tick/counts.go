package tick

// Sums returns the counts in database order.
func (c *Counts) Sums() [13]*uint64 {
	return [...]*uint64{&c.Calls, &c.Done, &c.Errors, &c.Nested, &c.Unmeasured, &c.Abandoned, &c.Total, &c.OnCPU, &c.Runnable, &c.Throttled, &c.Inner, &c.Partial, &c.PartialNS}
}

// Add adds o.
func (c *Counts) Add(o *Counts) {
	from := o.Sums()
	for i, p := range c.Sums() {
		*p += *from[i]
	}
}

// Since returns the growth since an earlier state of the counts. If a count has shrunk the counts
// began anew, and all of them are growth.
func (c *Counts) Since(was *Counts) Counts {
	left := *c
	before := was.Sums()
	for i, p := range left.Sums() {
		if *p < *before[i] {
			return *c
		}
		*p -= *before[i]
	}
	return left
}
