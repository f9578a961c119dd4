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
	// twinWithin bounds the difference in time of a fault's two reports, since the log has a clock
	// of its own.
	twinWithin = 5 * time.Second
	// burstGap is the longest time between two faults of a burst, and burstMost its maximum length.
	burstGap  = 5 * time.Second
	burstMost = time.Minute
	// driverTimeout is the driver's longest time-out plus the time to report it: consequences of a
	// fault may come this long after it.
	driverTimeout = 45*time.Second + burstGap
	// causeWithin is how long after a fault the driver may name it as a cause.
	causeWithin = 10 * time.Minute
	// maxTwins bounds the faults that wait for their second report. Beyond it the oldest is
	// evicted, and may be reported twice.
	maxTwins = 16384
	// maxDevices bounds the devices with an open burst. Beyond it all bursts end.
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

// Twins dedupes faults that come both ways. The zero value is ready. It is not safe for concurrent
// use.
type Twins struct {
	waiting map[faultKey][]tick.Xid
	n       int
}

// First reports whether a fault has not come the other way yet. Faults that a program wrote to the
// log come only once.
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
			if t.waiting[k] = slices.Delete(t.waiting[k], i, i+1); len(t.waiting[k]) == 0 {
				delete(t.waiting, k)
			}
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

// forget drops faults that got no second report in time.
func (t *Twins) forget(k faultKey, now int64) {
	faults := t.waiting[k]
	n := 0
	for n < len(faults) && now-faults[n].Time > int64(twinWithin) {
		n++
	}
	if t.n -= n; n == len(faults) {
		delete(t.waiting, k)
	} else {
		t.waiting[k] = faults[n:]
	}
}

// makeRoom drops the oldest fault.
func (t *Twins) makeRoom() {
	var oldest *faultKey
	for k, faults := range t.waiting {
		if oldest == nil || faults[0].Time < t.waiting[*oldest][0].Time {
			oldest = &k
		}
	}
	t.n -= len(t.waiting[*oldest])
	delete(t.waiting, *oldest)
}

// twins reports whether two reports by different ways are of the same fault.
func twins(a, b *tick.Xid) bool {
	return a.Via != b.Via && sameFault(a, b) && abs(a.Time-b.Time) <= int64(twinWithin) && alike(a.Msg, b.Msg)
}

// alike reports whether two messages may be the same. The log's message has the process in front
// and the cause at the end, the tracepoint's has neither. Both may be truncated.
func alike(a, b string) bool {
	a, b = strings.TrimSpace(a), strings.TrimSpace(b)
	return within(a, b) || within(b, a) || within(bare(a), bare(b)) || within(bare(b), bare(a))
}

// within reports whether b is a prefix of a, or follows a process name in a. Names may contain
// commas.
func within(a, b string) bool {
	if strings.HasPrefix(a, b) {
		return true
	}
	return strings.HasPrefix(a, "pid=") && strings.Contains(a, "name=") && strings.Contains(a, ", "+b)
}

// victim matches the process at the beginning of a log message, and cause the cause at its end.
var (
	victim = regexp.MustCompile(`^pid=[^,]*, *(?:name=[^,]*,? *)?`)
	cause  = regexp.MustCompile(` *caused by previous Xid [0-9]+$`)
)

// bare returns a message without process and cause.
func bare(msg string) string {
	msg = strings.TrimSpace(msg)
	return cause.ReplaceAllString(victim.ReplaceAllString(msg, ""), "")
}

// Bursts groups faults that follow from each other. The zero value is ready. It is not safe for
// concurrent use.
type Bursts struct {
	n    uint64
	open map[device][]*burst // by instance, and for the whole device, latest last
}

// burst is a group of faults of one device or MIG instance that follow from the first.
type burst struct {
	number      uint64
	instance    tick.Number // unknown: the whole device
	root        uint32
	first, last int64
	size        int
	codes       map[uint32]int64 // first time of each code
	grave       bool             // one of them is not harmless
}

// Group sorts faults by time and sets their places in their bursts. Earlier calls must have had
// earlier faults.
func (b *Bursts) Group(xs []tick.Xid) {
	slices.SortStableFunc(xs, func(a, c tick.Xid) int { return cmp.Compare(a.Time, c.Time) })
	for i := range xs {
		x := &xs[i]
		at := b.burst(x)
		if at == nil {
			at = b.begin(x)
		}
		at.add(x)
	}
}

// burst returns the burst that a fault belongs to, nil if it begins a new one.
func (b *Bursts) burst(x *tick.Xid) *burst {
	open := b.open[deviceOf(x)]
	for i := len(open) - 1; i >= 0; i-- {
		at := open[i]
		// Faults of different instances do not follow from each other.
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
	if x.CausedBy != 0 { // the cause was not seen
		at.root, at.size = x.CausedBy, 1
	}
	d := deviceOf(x)
	// The new burst ends the instance's former one.
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

// leadsTo reports whether a fault follows from a burst: the driver says so, or it comes soon after,
// or it is a consequence within the driver's time-out.
func (b *burst) leadsTo(x *tick.Xid) bool {
	if x.CausedBy != 0 {
		at, known := b.codes[x.CausedBy]
		return known && x.Time-at <= int64(causeWithin) || b.root == x.CausedBy && x.Time-b.last <= int64(causeWithin)
	}
	gap := x.Time - b.last
	return gap <= int64(burstGap) && x.Time-b.first <= int64(burstMost) || gap <= int64(driverTimeout) && b.grave && consequence(x)
}

// harmless reports whether a fault needs no action and has no consequences.
func harmless(x *tick.Xid) bool {
	return NeedsNoAction(x) && LookupFault(x).Severity != "fatal"
}

// NeedsNoAction reports whether NVIDIA asks for no immediate action after a fault.
func NeedsNoAction(x *tick.Xid) bool { return LookupFault(x).action == "IGNORE" }

// consequences are the codes of effects of an earlier fault: work that does not end, channels that
// are removed, a GPU that needs a reset.
var consequences = []uint32{8, 45, 46, 109, 119, 154, 158}

var timeout = regexp.MustCompile(`(?i)\btime-?d? ?-?out\b`)

func consequence(x *tick.Xid) bool {
	return !x.Switch && (slices.Contains(consequences, x.Code) || timeout.MatchString(x.Msg))
}
