package segment

import (
	"cmp"
	"slices"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// A tick has the changed threads' accounts, as differences from the previous tick, and the ids of
// threads that disappeared without having ended. An ended thread is in no later tick.

// Marks of an account.
const (
	threadWhole    = 1 << iota // absolute; Since and Comm follow
	threadEnded                // Ended
	threadEnrolled             // Enrolled
	threadComm                 // Comm follows
	threadDoing                // Now follows
	threadOpen                 // Open follows
	threadStill                // the changed times grew by as much as Until
	threadMarks    = 1<<7 - 1
)

// times returns pointers to an account's times in the order of a log.
func times(t *tick.Thread) [12]*uint64 {
	return [...]*uint64{
		&t.InCalls.OnCPU, &t.InCalls.Blocked, &t.Sync.OnCPU, &t.Sync.Blocked, &t.Between.OnCPU, &t.Between.Blocked,
		&t.InCalls.Runnable, &t.Sync.Runnable, &t.Between.Runnable, &t.InCalls.Throttled, &t.Sync.Throttled, &t.Between.Throttled,
	}
}

// threadsWriter is the state of the threads as written to the log.
type threadsWriter map[threadKey]*writtenThread

type writtenThread struct {
	tick.Thread
	seq uint64 // of the last tick that had it
}

// append appends a tick's threads. Threads without room wait for the next tick.
func (w threadsWriter) append(b []byte, t *tick.Tick) []byte {
	var last threadKey
	var changed int
	var body []byte
	for i := range t.Threads {
		now := &t.Threads[i]
		k := threadKey{now.PID, now.TID}
		written := w[k]
		if written != nil {
			written.seq = t.Seq
		}
		if written == nil && len(w) >= maxThreads || len(b)+len(body) > maxTick-threadRoom {
			continue
		}
		if written != nil && !t.Final && sameThread(&written.Thread, now) {
			continue
		}
		body = appendThreadKey(body, k, &last)
		var before tick.Thread
		whole := written == nil || t.Final || written.Since != now.Since
		if !whole {
			before = written.Thread
		}
		body = appendThread(body, now, &before, whole, UnixNano(t.Time))
		changed++
		w.note(k, written, now, t.Seq)
	}
	b = append(appendUvarint(b, uint64(changed)), body...)
	return w.appendRemoved(b, t.Seq)
}

// threadRoom is the room needed after a tick's last account: one account and the ids of all
// disappeared threads.
const threadRoom = 1<<10 + maxThreads*11

// note records what the log now has of a thread.
func (w threadsWriter) note(k threadKey, written *writtenThread, now *tick.Thread, seq uint64) {
	switch {
	case now.Ended:
		delete(w, k)
		return
	case written == nil:
		written = &writtenThread{seq: seq}
		w[k] = written
	}
	open := append(written.Open[:0], now.Open...)
	written.Thread = *now
	written.Open = open
}

// appendRemoved appends the threads that the tick no longer has.
func (w threadsWriter) appendRemoved(b []byte, seq uint64) []byte {
	var keys []threadKey
	for k, written := range w {
		if written.seq != seq {
			keys = append(keys, k)
			delete(w, k)
		}
	}
	slices.SortFunc(keys, compareThreads)
	b = appendUvarint(b, uint64(len(keys)))
	var last threadKey
	for _, k := range keys {
		b = appendThreadKey(b, k, &last)
	}
	return b
}

func compareThreads(a, b threadKey) int {
	return cmp.Or(cmp.Compare(a.pid, b.pid), cmp.Compare(a.tid, b.tid))
}

// sameThread reports whether two accounts are equal.
func sameThread(a, b *tick.Thread) bool {
	return a.Comm == b.Comm && a.Enrolled == b.Enrolled && a.Ended == b.Ended && a.Since == b.Since && a.Until == b.Until &&
		a.InCalls == b.InCalls && a.Between == b.Between && a.Sync == b.Sync && a.Now == b.Now && slices.Equal(a.Open, b.Open)
}

// appendThread appends an account's difference from before. at is the tick's time, near which most
// times are.
func appendThread(b []byte, now, before *tick.Thread, whole bool, at int64) []byte {
	elapsed := now.Until - before.Until
	mask, still := uint64(0), true
	was := times(before)
	for i, v := range times(now) {
		if *v != *was[i] {
			mask |= 1 << i
			still = still && *v-*was[i] == uint64(elapsed)
		}
	}
	marks := uint64(0)
	for i, set := range [...]bool{whole, now.Ended, now.Enrolled, now.Comm != before.Comm, now.Now != before.Now, !slices.Equal(now.Open, before.Open), still} {
		if set {
			marks |= 1 << i
		}
	}
	b = appendUvarint(appendUvarint(b, marks), zig(at-now.Until))
	if whole {
		b = appendUvarint(b, zig(at-now.Since))
	}
	if marks&threadComm != 0 {
		b = appendString(b, now.Comm[:min(len(now.Comm), maxComm)])
	}
	b = appendUvarint(b, mask)
	for i, v := range times(now) {
		if mask&(1<<i) != 0 && !still {
			b = appendUvarint(b, zig(int64(*v-*was[i])))
		}
	}
	if marks&threadDoing != 0 {
		b = appendDoing(b, &now.Now, at)
	}
	if marks&threadOpen != 0 {
		b = appendOpen(b, now.Open, at)
	}
	return b
}

func appendDoing(b []byte, d *tick.ThreadState, at int64) []byte {
	b = append(b, byte(d.State), byte(d.Reason), byte(d.File))
	for _, v := range [...]uint64{uint64(d.Syscall), d.Arg, uint64(d.Dev), uint64(d.CPU), zig(at - d.Since)} {
		b = appendUvarint(b, v)
	}
	return b
}

// appendOpen appends the open calls. A log keeps the outermost maxOpen of them.
func appendOpen(b []byte, open []tick.OpenCall, at int64) []byte {
	open = open[:min(len(open), maxOpen)]
	b = appendUvarint(b, uint64(len(open)))
	for i := range open {
		o := &open[i]
		b = appendUvarint(appendUvarint(appendUvarint(b, uint64(o.Op)), zig(at-o.Start)), uint64(o.Tag))
		n := events.MaxArgs
		for n > 0 && o.Args[n-1] == 0 {
			n--
		}
		b = appendUvarint(b, uint64(n))
		for _, a := range o.Args[:n] {
			b = appendUvarint(b, a)
		}
	}
	return b
}
