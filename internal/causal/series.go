package causal

import (
	"ingero/internal/ledger"
	"ingero/pkg/events"
)

const (
	windowSeconds = 60 // length of the window
	maxSeries     = 512
	maxRecords    = 1 << 16 // of all series
	maxKinds      = 8       // of steps whose netting is remembered
	maxParts      = 8       // of a step
	maxOwn        = 4       // operations of a step
	slowQuota     = 24      // unusually long steps kept per second
	excessQuota   = 16      // other delayed steps kept per second
	freeQuota     = 12      // other steps kept per second
	longStep      = 125e6   // ns: all steps of at least this length are kept
	longQuota     = 1e9/longStep + 1
	earlySteps    = 20 // a thread's first steps, in which a job may still start
)

// record is a step in the window.
type record struct {
	from, length  int64
	next          int64 // length of the next step, if of the same kind; 0: unknown
	kind          uint32
	op            events.Op
	launches      uint32
	marks         ledger.Marks
	period        bool
	unseen        bool // not all launches have a record
	graphsUnknown bool // it is unknown whether it launched a graph
	unknown       bool // it waited for a thread whose activity is unknown
	early         bool // among the thread's first earlySteps
	nparts, nown  uint8
	shed          shed
	loss          ledger.Loss
	gpu           int64  // GPU wait
	cpu           int64  // on a CPU elsewhere
	lead          int64  // of cpu: until the first launch
	gap           int64  // of cpu: between calls
	codeAt        uint32 // stack of most of its longest gap's time on a CPU, 0: unknown
	closedAt      uint32 // latest stack of a closing call of its kind, 0: unknown
	slept         int64  // of blocked: it slept of its own accord
	sleptAt       uint32 // stack of its longest sleep, 0: unknown
	waited        int64  // runnable, throttled
	behind        int64  // of the waits outside the closing call: hidden by the GPU's queue
	blocked       int64  // outside the closing call
	awaited       int64  // of blocked: for data from other threads or processes
	worked        int64  // of awaited: these were on a CPU
	starved       int64  // of awaited: these waited for a CPU
	parts         [maxParts]part
	own           [maxOwn]ownTime
}

func (r *record) to() int64 { return r.from + r.length }

type part struct {
	ns       int64
	cause    uint32
	critical bool
	unknown  uint8 // share of ns with unknown activity of a waker, in 255ths
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
	ns      int64
	seen    uint32
	all     uint32 // calls represented by seen
	op      events.Op
	size    uint8
	slowest uint32 // of seen: as in ledger.OpTime
	long    int64  // time of the few calls, ns
}

// series has the steps of one thread in the window, by second.
type series struct {
	pid, tid uint32
	newest   int64 // second
	period   bool  // latest step is one second by definition
	rng      uint64
	last     record // latest step, pending until the next one
	waiting  bool
	usual    float64 // length of half of the steps, ns
	steps    int     // total number
	reached  [maxKinds]reached
	closedAt [maxKinds]closedAt
	slots    [windowSeconds]slot
}

// closedAt is the latest stack of a closing call, for steps of one kind. Most calls have none.
type closedAt struct{ kind, stack uint32 }

// see takes in the closing call's stack, 0: none, and returns the latest one of the kind.
func (s *series) see(kind, stack uint32) uint32 {
	x := &s.closedAt[kind%maxKinds]
	if stack != 0 || x.kind != kind {
		*x = closedAt{kind, stack}
	}
	return x.stack
}

// slot is one second of a series.
type slot struct {
	second                   int64
	slow, excess, free, long stratum
}

func (x *slot) strata() [4]*stratum { return [...]*stratum{&x.slow, &x.excess, &x.free, &x.long} }

// quotas is how many steps a slot keeps of each stratum but long.
type quotas struct{ slow, excess, free int }

// quotaOf divides the records of one slot between its strata.
func quotaOf(records int) quotas {
	return quotas{min(slowQuota, records/2), min(excessQuota, records/4), min(freeQuota, records/4)}
}

// stratum is a random sample of steps, each kept with the same probability.
type stratum struct {
	seen int
	list []record
}

// place returns where to keep one more step of a stratum, or nil if it is not drawn.
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

// slot returns the slot of a time; ok is false for a time before the window.
func (s *series) slot(ns int64) (*slot, bool) {
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

// long reports whether a step is longer than the thread's usual step, then updates the latter.
func (s *series) long(r *record) bool {
	if s.usual == 0 {
		s.usual = float64(r.length)
		return false
	}
	long := float64(r.length) > 1.2*s.usual
	if step := s.usual / 64; float64(r.length) > s.usual {
		s.usual += step
	} else {
		s.usual -= step
	}
	return long
}

const (
	// markAfter marks a step right after a failed allocation: it may contain the program's
	// reaction.
	markAfter ledger.Marks = 1 << 15
	// rare has the marks of important steps that are few.
	rare = ledger.MarkNoMemory | ledger.MarkCapture | ledger.MarkUpload | markAfter
)

// push adds the pending step and makes r the pending one. Unusually long steps and delayed steps
// are sampled separately: they are few and matter most. A few long steps among many short
// ones would have large, random weights in a common sample. The longest steps are all kept,
// since one of them may have lost more than all others.
func (s *series) push(r *record, q quotas) {
	if s.waiting {
		if s.last.to() == r.from && s.last.kind == r.kind {
			s.last.next = r.length
		}
		if s.last.to() == r.from && s.last.marks&ledger.MarkNoMemory != 0 {
			r.marks |= markAfter
		}
		if x, ok := s.slot(s.last.to()); ok {
			t, keep := &x.free, q.free
			switch long := s.long(&s.last); {
			case s.last.length >= longStep:
				t, keep = &x.long, longQuota
			case long:
				t, keep = &x.slow, q.slow
			case s.last.nparts > 0 || s.last.marks&rare != 0:
				t, keep = &x.excess, q.excess
			}
			if to := t.place(keep, &s.rng); to != nil {
				*to = s.last
			}
		}
	}
	s.last, s.waiting = *r, true
}

// sample is a record and the number of steps that it represents.
type sample struct {
	*record
	weight float64
}

// samples appends the records in the window, ordered by second.
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
