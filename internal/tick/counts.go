package tick

// Sums are the counts in the order in which a database has them.
func (c *Counts) Sums() [13]*uint64 {
	return [...]*uint64{&c.Calls, &c.Done, &c.Errors, &c.Nested, &c.Unmeasured, &c.Abandoned, &c.Total, &c.OnCPU, &c.Runnable, &c.Throttled, &c.Inner, &c.Partial, &c.PartialNS}
}

// Add adds other calls.
func (c *Counts) Add(o *Counts) {
	from := o.Sums()
	for i, p := range c.Sums() {
		*p += *from[i]
	}
}

// Since returns what was added to an earlier state of the counts. Where a count has become
// less they began anew, and all of them was added.
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
