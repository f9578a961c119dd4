package xid

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"ingero/internal/tick"
)

const (
	// twinWithin is how far apart the two reports of one fault can be: by the
	// tracepoint, and in the log, whose clock is another.
	twinWithin = 5 * time.Second
	// burstGap is the longest time between two faults of a burst, burstMost the time
	// after which whatever comes is another.
	burstGap  = 5 * time.Second
	burstMost = time.Minute
	// maxTwins bounds the faults whose second report is awaited. When there are more
	// the oldest is not any more: then it may be told twice.
	maxTwins = 16384
	// maxDevices bounds those that have a burst under way. When there are more, all
	// bursts end.
	maxDevices = 4096
)

// device is a GPU or a switch.
type device struct {
	bus      string
	isSwitch bool
}

type faultKey struct {
	device
	code uint32
}

// Twins sees that a fault which comes by both ways is told once. The zero value is
// ready. It is for one goroutine.
type Twins struct {
	waiting map[faultKey][]tick.Xid
	n       int
}

// First tells whether a fault was not told yet by the other way. What a program wrote
// to the log has come by no other.
func (t *Twins) First(x *tick.Xid) bool {
	if x.Injected {
		return true
	}
	if t.waiting == nil {
		t.waiting = map[faultKey][]tick.Xid{}
	}
	k := faultKey{device{x.Bus, x.Switch}, x.Code}
	t.forget(k, x.Time)
	for i := range t.waiting[k] {
		w := &t.waiting[k][i]
		if w.Via != x.Via && alike(w.Msg, x.Msg) && x.Time-w.Time <= int64(twinWithin) {
			t.waiting[k] = slices.Delete(t.waiting[k], i, i+1)
			t.n--
			return false
		}
	}
	if t.n >= maxTwins {
		t.makeRoom()
	}
	t.waiting[k] = append(t.waiting[k], *x)
	t.n++
	return true
}

// forget lets go of what has no second report, as of a time.
func (t *Twins) forget(k faultKey, now int64) {
	of := t.waiting[k]
	n := 0
	for n < len(of) && now-of[n].Time > int64(twinWithin) {
		n++
	}
	if t.n -= n; n == len(of) {
		delete(t.waiting, k)
	} else {
		t.waiting[k] = of[n:]
	}
}

// makeRoom lets go of the oldest.
func (t *Twins) makeRoom() {
	var oldest *faultKey
	for k, of := range t.waiting {
		if oldest == nil || of[0].Time < t.waiting[*oldest][0].Time {
			oldest = &k
		}
	}
	t.n -= len(t.waiting[*oldest])
	delete(t.waiting, *oldest)
}

// alike tells whether two messages can be one: a tracepoint's may be cut short.
func alike(a, b string) bool {
	a, b = strings.TrimSpace(a), strings.TrimSpace(b)
	return strings.HasPrefix(a, b) || strings.HasPrefix(b, a)
}

// Bursts groups faults that follow from each other. The zero value is ready. It is for
// one goroutine.
type Bursts struct {
	n    uint64
	open map[device]*burst
}

type burst struct {
	number      uint64
	root        uint32
	first, last int64
	size        int
}

// Group puts faults in the order of time and sets what each is in its burst. What came
// before, in time, was given to it before.
func (b *Bursts) Group(xs []tick.Xid) {
	if b.open == nil {
		b.open = map[device]*burst{}
	}
	slices.SortStableFunc(xs, func(a, c tick.Xid) int { return cmp.Compare(a.Time, c.Time) })
	for i := range xs {
		x := &xs[i]
		d := device{x.Bus, x.Switch}
		at := b.open[d]
		if at == nil || x.Time-at.last > int64(burstGap) || x.Time-at.first > int64(burstMost) {
			if b.n++; len(b.open) >= maxDevices {
				clear(b.open)
			}
			at = &burst{number: b.n, root: x.Code, first: x.Time}
			b.open[d] = at
		}
		at.size++
		at.last = max(at.last, x.Time)
		x.Burst, x.At, x.Root, x.After = at.number, at.size, at.root, time.Duration(max(0, x.Time-at.first))
	}
}
