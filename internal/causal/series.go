package causal

import (
	"ingero/internal/ledger"
	"ingero/pkg/events"
)

const (
	windowSeconds = 60 // that are looked at
	maxSeries     = 512
	maxRecords    = 1 << 16 // of all series
	maxKinds      = 8       // of steps whose usual length is followed
	maxParts      = 8       // of a step
	maxOwn        = 4       // operations of a step
	heldQuota     = 32      // steps kept of a second: those that something held up
	freeQuota     = 12      // and others
	longStep      = 125e6   // ns: steps of this length are all kept
	longQuota     = 1e9/longStep + 1
	earlySteps    = 20 // of a thread, in which a job may still start
)

// record is a step as the window keeps it.
type record struct {
	from, length int64
	next         int64 // length of the step after it, if of the same kind; 0: not known
	kind         uint32
	op           events.Op
	launches     uint32
	marks        ledger.Marks
	period       bool
	unseen       bool // not all launches have a record
	unknown      bool // it is not known what a thread did that it waited for
	early        bool // one of the thread's first
	nparts, nown uint8
	shed         shed
	loss         ledger.Loss
	gpu          int64 // GPU wait
	cpu          int64 // on a CPU elsewhere
	waited       int64 // runnable, throttled
	behind       int64 // of the waits outside the closing call: hidden by the GPU's queue
	blocked      int64 // outside the closing call
	parts        [maxParts]part
	own          [maxOwn]ownTime
}

func (r *record) to() int64 { return r.from + r.length }

type part struct {
	ns       int64
	cause    uint32
	critical bool
	unknown  uint8 // share of ns, in 255ths, of which it is not known what a waker did
}

// add adds a part of the same cause.
func (p *part) add(o *part) {
	p.unknown = uint8((int64(p.unknown)*p.ns + int64(o.unknown)*o.ns) / max(p.ns+o.ns, 1))
	p.ns += o.ns
}

// shareOf returns a share of a part, in 255ths.
func shareOf(ns, all int64) uint8 { return uint8(255 * float64(min(ns, all)) / float64(max(all, 1))) }

// ownTime is the own time of a step's calls of one operation and size.
type ownTime struct {
	ns   int64
	seen uint32
	all  uint32 // calls that seen stand for
	op   events.Op
	size uint8
	few  uint32 // of seen: as in ledger.OpTime
	long int64  // what these took, ns
}

// series are the steps of one thread in the window, by second.
type series struct {
	pid, tid uint32
	newest   int64 // second
	period   bool  // its latest step was a second by definition
	rng      uint64
	last     record // the latest step, which waits for its successor
	waiting  bool
	typical  [maxKinds]typical
	steps    int // that there were
	reached  [maxKinds]reached
	slots    [windowSeconds]slot
}

// slot is one second of a series.
type slot struct {
	second           int64
	held, free, long stratum
}

func (x *slot) strata() [3]*stratum { return [...]*stratum{&x.held, &x.free, &x.long} }

// stratum is a random sample of steps: each had the same chance to be kept.
type stratum struct {
	seen int
	list []record
}

// place returns where to keep one more step of a stratum, nil when it is not drawn.
func (s *stratum) place(quota int, rng *uint64) *record {
	s.seen++
	if len(s.list) < quota {
		s.list = append(s.list, record{})
		return &s.list[len(s.list)-1]
	}
	*rng ^= *rng << 13
	*rng ^= *rng >> 7
	*rng ^= *rng << 17
	if at := *rng % uint64(s.seen); at < uint64(len(s.list)) {
		return &s.list[at]
	}
	return nil
}

// at returns the slot of a time; ok is false for one before the window.
func (s *series) at(ns int64) (*slot, bool) {
	second := ns / 1e9
	if second <= s.newest-windowSeconds {
		return nil, false
	}
	s.newest = max(s.newest, second)
	x := &s.slots[second%windowSeconds]
	if x.second != second {
		x.second = second
		for _, t := range x.strata() {
			*t = stratum{list: t.list[:0]}
		}
	}
	return x, true
}

// typical follows the usual length of steps of a kind.
type typical struct {
	kind   uint32
	length float64 // ns
}

// long says whether a step is longer than is usual, which it then learns from.
func (s *series) long(r *record) bool {
	x := &s.typical[r.kind%maxKinds]
	if x.kind != r.kind || x.length == 0 {
		*x = typical{r.kind, float64(r.length)}
		return true
	}
	long := float64(r.length) > 1.2*x.length
	if step := x.length / 64; float64(r.length) > x.length {
		x.length += step
	} else {
		x.length -= step
	}
	return long
}

const (
	// markAfter marks a step right after one in which an allocation failed: what a program
	// does about that may be in it.
	markAfter ledger.Marks = 1 << 15
	// rare are marks of steps that are few, and matter.
	rare = ledger.MarkNoMemory | ledger.MarkCapture | ledger.MarkUpload | markAfter
)

// push adds the step that waited for its successor, and lets the next one wait.
// Steps that something held up, or that are longer than others, are sampled apart:
// they are few and matter most. A second has few of the longest, and one of them may have lost
// more than all others, so none stands for another one.
func (s *series) push(r *record, quota [2]int) {
	if s.waiting {
		if s.last.to() == r.from && s.last.kind == r.kind {
			s.last.next = r.length
		}
		if s.last.to() == r.from && s.last.marks&ledger.MarkNoMemory != 0 {
			r.marks |= markAfter
		}
		if x, ok := s.at(s.last.to()); ok {
			t, q := &x.free, quota[1]
			switch {
			case s.last.length >= longStep:
				t, q = &x.long, longQuota
			case s.last.nparts > 0 || s.last.marks&rare != 0 || s.long(&s.last):
				t, q = &x.held, quota[0]
			}
			if to := t.place(q, &s.rng); to != nil {
				*to = s.last
			}
		}
	}
	s.last, s.waiting = *r, true
}

// sample is a record and the number of steps that it stands for.
type sample struct {
	*record
	weight float64
}

// samples appends what is in the window, in order of seconds.
func (s *series) samples(to []sample) []sample {
	for second := s.newest - windowSeconds + 1; second <= s.newest; second++ {
		x := &s.slots[((second%windowSeconds)+windowSeconds)%windowSeconds]
		if x.second != second {
			continue
		}
		for _, t := range x.strata() {
			for i := range t.list {
				to = append(to, sample{&t.list[i], float64(t.seen) / float64(len(t.list))})
			}
		}
	}
	if s.waiting {
		to = append(to, sample{&s.last, 1})
	}
	return to
}
