package track

import (
	"slices"
	"sort"
)

// ranges are allocated ranges of addresses, in order, to look up a pointer into one. It has at most
// maxRanges of them.
type ranges struct {
	all  []stretch
	lack int // number beyond the limit
}

type stretch struct {
	at, bytes uint64
	host      bool
}

// after returns the index of the first range that begins after an address.
func (r *ranges) after(at uint64) int {
	return sort.Search(len(r.all), func(i int) bool { return r.all[i].at > at })
}

func (r *ranges) insert(at, bytes uint64, host bool) {
	i := r.after(at)
	switch {
	case i > 0 && r.all[i-1].at == at:
		r.all[i-1] = stretch{at, bytes, host}
	case len(r.all) >= maxRanges:
		r.lack++
	default:
		r.all = slices.Insert(r.all, i, stretch{at, bytes, host})
	}
}

func (r *ranges) remove(at uint64) {
	if i := r.after(at); i > 0 && r.all[i-1].at == at {
		r.all = slices.Delete(r.all, i-1, i)
	} else if r.lack > 0 {
		r.lack--
	}
}

// find returns the range that contains an address.
func (r *ranges) find(at uint64) (s stretch, found bool) {
	i := r.after(at)
	if i == 0 {
		return s, false
	}
	s = r.all[i-1]
	return s, at-s.at < s.bytes
}

// holes returns the unallocated share of the GPU address span; below 0: unknown.
func (r *ranges) holes() float64 {
	var first, end, held uint64
	for i := range r.all {
		s := &r.all[i]
		if s.host {
			continue
		}
		if held == 0 {
			first = s.at
		}
		held += s.bytes
		end = max(end, s.at+s.bytes)
	}
	if held == 0 || r.lack > 0 || end <= first {
		return -1
	}
	return 1 - min(float64(held)/float64(end-first), 1)
}
