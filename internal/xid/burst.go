package xid

import (
	"cmp"
	"regexp"
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
	// driverTimeout is the longest time-out of the driver, with what it takes to tell of
	// it: for so long after a fault what it leads to may come.
	driverTimeout = 45*time.Second + burstGap
	// causeWithin is how long after a fault the driver may name it as a cause.
	causeWithin = 10 * time.Minute
	// maxTwins bounds the faults whose second report is awaited. When there are more
	// the oldest is not any more: then it may be told twice.
	maxTwins = 16384
	// maxDevices bounds those that have a burst under way. When there are more, all
	// bursts end.
	maxDevices = 4096
	// maxCodes bounds the codes of a burst that later faults can follow from.
	maxCodes = 64
)

// device is a GPU or a switch.
type device struct {
	bus      string
	isSwitch bool
}

func deviceOf(x *tick.Xid) device { return device{x.Bus, x.Switch} }

type faultKey struct {
	device
	code uint32
}

func keyOf(x *tick.Xid) faultKey { return faultKey{deviceOf(x), x.Code} }

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
	k := keyOf(x)
	t.forget(k, x.Time)
	for i := range t.waiting[k] {
		if twins(&t.waiting[k][i], x) {
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

// twins tells whether two reports are of one fault that came by both ways.
func twins(a, b *tick.Xid) bool {
	return a.Via != b.Via && sameFault(a, b) && abs(a.Time-b.Time) <= int64(twinWithin) && alike(a.Msg, b.Msg)
}

// alike tells whether two messages can be one. The log's has the process in front and the
// cause behind it, the tracepoint's has not; either may be cut short.
func alike(a, b string) bool {
	a, b = strings.TrimSpace(a), strings.TrimSpace(b)
	return within(a, b) || within(b, a) || within(bare(a), bare(b)) || within(bare(b), bare(a))
}

// within tells whether b is a, or as much of it as there was room for, or what follows the
// name of a process in a: names may have a comma in them.
func within(a, b string) bool {
	if strings.HasPrefix(a, b) {
		return true
	}
	return strings.HasPrefix(a, "pid=") && strings.Contains(a, "name=") && strings.Contains(a, ", "+b)
}

// victim is the process that a message of the log names in front, and cause what it names
// behind.
var (
	victim = regexp.MustCompile(`^pid=[^,]*, *(?:name=[^,]*,? *)?`)
	cause  = regexp.MustCompile(` *caused by previous Xid [0-9]+$`)
)

// bare is a message without process and cause.
func bare(msg string) string {
	msg = strings.TrimSpace(msg)
	return cause.ReplaceAllString(victim.ReplaceAllString(msg, ""), "")
}

// Bursts groups faults that follow from each other. The zero value is ready. It is for
// one goroutine.
type Bursts struct {
	n    uint64
	open map[device][]*burst // of each instance, and of none, the latest last
}

// burst are faults of one device, or of one MIG instance of it, that follow from the first.
type burst struct {
	number      uint64
	instance    tick.Number // unknown: of the whole device
	root        uint32
	first, last int64
	size        int
	codes       map[uint32]int64 // when each came first
	grave       bool             // one of them is not harmless
}

// Group puts faults in the order of time and sets what each is in its burst. What came
// before, in time, was given to it before.
func (b *Bursts) Group(xs []tick.Xid) {
	slices.SortStableFunc(xs, func(a, c tick.Xid) int { return cmp.Compare(a.Time, c.Time) })
	for i := range xs {
		x := &xs[i]
		at := b.of(x)
		if at == nil {
			at = b.begin(x)
		}
		at.add(x)
	}
}

// of returns the burst that a fault belongs to, nil where it begins one.
func (b *Bursts) of(x *tick.Xid) *burst {
	open := b.open[deviceOf(x)]
	for i := len(open) - 1; i >= 0; i-- {
		at := open[i]
		// What hits one instance does not follow from what hit another.
		if at.instance != 0 && x.GPUInstance != 0 && at.instance != x.GPUInstance {
			continue
		}
		if at.leadsTo(x) {
			return at
		}
	}
	return nil
}

func (b *Bursts) begin(x *tick.Xid) *burst {
	if b.open == nil || len(b.open) >= maxDevices {
		b.open = map[device][]*burst{}
	}
	b.n++
	at := &burst{number: b.n, instance: x.GPUInstance, root: x.Code, first: x.Time, last: x.Time, codes: map[uint32]int64{}}
	if x.CausedBy != 0 { // which was not seen
		at.root, at.size = x.CausedBy, 1
	}
	d := deviceOf(x)
	// One of the same instance is over now.
	b.open[d] = append(slices.DeleteFunc(b.open[d], func(o *burst) bool { return o.instance == x.GPUInstance }), at)
	return at
}

func (b *burst) add(x *tick.Xid) {
	b.size++
	b.last = max(b.last, x.Time)
	if _, known := b.codes[x.Code]; !known && len(b.codes) < maxCodes {
		b.codes[x.Code] = x.Time
	}
	b.grave = b.grave || !harmless(x)
	x.Burst, x.At, x.Root, x.After = b.number, b.size, b.root, time.Duration(max(0, x.Time-b.first))
	if x.CausedBy != 0 && b.size > 1 {
		x.Root = x.CausedBy
	}
}

// leadsTo tells whether a fault follows from those of a burst: the driver says so, or it
// comes soon after, or it is what the driver tells of once a time-out is over.
func (b *burst) leadsTo(x *tick.Xid) bool {
	if x.CausedBy != 0 {
		at, known := b.codes[x.CausedBy]
		return known && x.Time-at <= int64(causeWithin) || b.root == x.CausedBy && x.Time-b.last <= int64(causeWithin)
	}
	gap := x.Time - b.last
	return gap <= int64(burstGap) && x.Time-b.first <= int64(burstMost) || gap <= int64(driverTimeout) && b.grave && consequence(x)
}

// harmless tells whether nothing has to be done for a fault: nothing follows from it.
func harmless(x *tick.Xid) bool {
	c := Of(x)
	return c.action == "IGNORE" && c.Severity != "fatal"
}

// consequences are codes by which the driver tells what a fault before has led to: work that
// does not end, channels that are taken away, a GPU that has to be reset.
var consequences = []uint32{8, 45, 46, 109, 119, 154, 158}

var timeout = regexp.MustCompile(`(?i)\btime-?d? ?-?out\b`)

func consequence(x *tick.Xid) bool {
	return !x.Switch && (slices.Contains(consequences, x.Code) || timeout.MatchString(x.Msg))
}
