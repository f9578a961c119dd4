package label

import (
	"slices"

	"ingero/internal/tick"
)

// Bounds of what senders can cost.
const (
	maxProcesses = 512              // processes with labels
	maxOfUser    = maxProcesses / 4 // of these, of one user other than root and the tracer's
	maxLabels    = 128              // labels of a process and its threads
	maxWaiting   = 8192             // changes that the trace has not taken
	perSecond    = 100              // changes of a process a second
	burst        = 200              // changes of a process at once
	scanCost     = 10               // changes that a search for a thread counts as, and again for each scanThreads read
	scanThreads  = 256
	past         = int64(10e9) // ns: messages about earlier times are refused
)

// reason is why a message was refused: the reason of a drop.
type reason string

const (
	malformed  reason = "label-malformed"
	denied     reason = "label-denied"
	ended      reason = "label-sender-ended"
	noProcess  reason = "label-no-process"
	wrongTime  reason = "label-wrong-time"
	tooFast    reason = "label-rate"
	tooMany    reason = "label-too-many"
	notTaken   reason = "label-full"
	unreadable reason = "label-socket"
)

// sender is the verified sender of a message.
type sender struct {
	pid, uid uint32
}

// process is a process with labels.
type process struct {
	start  uint64 // identifies it: its start time in clock ticks
	uid    uint32 // of the sender who labelled it first
	tokens int64  // changes that it may send now, times 1e9
	filled int64  // when tokens was computed, ns
	labels map[thread]int64
}

// thread is a label of a thread: its last change is the value of the map.
type thread struct {
	tid uint32
	key string
}

// book has the labelled processes, and decides about messages. It is for one goroutine.
type book struct {
	procs   processes
	trusted uint32 // the tracer's user
	all     map[uint32]*process
}

// accept returns the changes of a message that arrived at a time, or why it is refused. Times are
// CLOCK_MONOTONIC, ns. A sender that has ended is refused: its PID namespace, which its numbers are
// of, is unknown then, and its own number may be another process's.
func (b *book) accept(from sender, m *Message, now int64) ([]tick.Label, reason) {
	pid, tid := m.PID, m.TID
	root := from.uid == 0 || from.uid == b.trusted
	nested, alive := b.procs.nested(from.pid)
	_, owner, known := b.procs.process(from.pid)
	if !alive || !known || !root && owner != from.uid && owner != nobody { // or another process has its number
		return nil, ended
	}
	if pid == 0 || nested != 0 && pid == nested {
		pid = from.pid
	}
	if pid != from.pid && nested != 0 { // a number of another PID namespace
		return nil, denied
	}
	at := m.Time
	if at == 0 {
		at = now
	}
	if at > now || at < now-past {
		return nil, wrongTime
	}
	start, uid, ok := b.procs.process(pid)
	if !ok {
		return nil, noProcess
	}
	if pid != from.pid && !root && uid != from.uid {
		return nil, denied
	}
	p, why := b.process(pid, start, from.uid, root, now)
	if p == nil {
		return nil, why
	}
	if cost := len(m.Set) + len(m.Clear) + int(scanCost*min(nested, tid, 1)); !p.take(int64(cost), now) {
		return nil, tooFast
	}
	if tid != 0 {
		var searched int
		tid, searched, ok = b.procs.thread(pid, tid, nested != 0)
		p.tokens -= int64(scanCost*(searched/scanThreads)) * 1e9 // may leave a debt
		if !ok {
			return nil, noProcess
		}
	}
	return p.change(pid, tid, at, m)
}

// process returns a process's entry, and creates it if there is room.
func (b *book) process(pid uint32, start uint64, uid uint32, root bool, now int64) (*process, reason) {
	if p := b.all[pid]; p != nil && p.start == start {
		return p, ""
	}
	if len(b.all) >= maxProcesses {
		return nil, tooMany
	}
	if n := 0; !root {
		for _, p := range b.all {
			if p.uid == uid {
				n++
			}
		}
		if n >= maxOfUser {
			return nil, tooMany
		}
	}
	p := &process{start: start, uid: uid, tokens: burst * 1e9, filled: now, labels: map[thread]int64{}}
	b.all[pid] = p
	return p, ""
}

// untilFull returns the time from p.filled until all tokens are back, in ns.
func (p *process) untilFull() int64 { return (burst*1e9 - p.tokens) / perSecond }

// take takes n tokens if there are enough.
func (p *process) take(n, now int64) bool {
	p.tokens += min(now-p.filled, p.untilFull()) * perSecond
	p.filled = now
	if p.tokens < n*1e9 {
		return false
	}
	p.tokens -= n * 1e9
	return true
}

// change applies a message to the process's labels.
func (p *process) change(pid, tid uint32, at int64, m *Message) (out []tick.Label, why reason) {
	after, keys := map[thread]bool{}, map[string]bool{}
	for l := range p.labels {
		if l.tid != tid || !slices.Contains(m.Clear, l.key) {
			after[l] = true
		}
	}
	for key := range m.Set {
		after[thread{tid, key}] = true
	}
	for l := range after {
		keys[l.key] = true
	}
	if len(keys) > MaxKeys || len(after) > maxLabels {
		return nil, tooMany
	}
	for _, key := range m.Clear {
		if last, has := p.labels[thread{tid, key}]; has {
			delete(p.labels, thread{tid, key})
			out = append(out, tick.Label{Time: max(at, last), PID: pid, TID: tid, Key: key})
		}
	}
	for key, value := range m.Set {
		last := max(at, p.labels[thread{tid, key}])
		p.labels[thread{tid, key}] = last
		out = append(out, tick.Label{Time: last, PID: pid, TID: tid, Key: key, Value: value})
	}
	slices.SortStableFunc(out, func(a, b tick.Label) int { return compare(&a, &b) })
	return out, ""
}

// sweep forgets the processes and threads that have ended, and returns the ends of their labels.
func (b *book) sweep(now int64) (out []tick.Label) {
	for pid, p := range b.all {
		if start, _, ok := b.procs.process(pid); !ok || start != p.start {
			delete(b.all, pid)
			out = append(out, tick.Label{Time: now, PID: pid})
			continue
		}
		if len(p.labels) == 0 && now-p.filled > p.untilFull() {
			delete(b.all, pid)
			continue
		}
		gone := map[uint32]bool{}
		for l := range p.labels {
			if _, known := gone[l.tid]; !known && l.tid != 0 {
				_, _, ok := b.procs.thread(pid, l.tid, false)
				if gone[l.tid] = !ok; !ok {
					out = append(out, tick.Label{Time: now, PID: pid, TID: l.tid})
				}
			}
			if gone[l.tid] {
				delete(p.labels, l)
			}
		}
	}
	slices.SortFunc(out, func(a, b tick.Label) int { return compare(&a, &b) })
	return out
}
