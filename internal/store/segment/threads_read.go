package segment

import (
	"slices"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// threadsReader is the state of the threads as read from the log.
type threadsReader map[threadKey]*tick.Thread

// read decodes the output of threadsWriter.append and returns all threads of the tick.
func (m threadsReader) read(r *reader, t *tick.Tick) []tick.Thread {
	at := UnixNano(t.Time)
	var out []tick.Thread
	var last threadKey
	for range r.count() {
		k := readThreadKey(r, &last)
		now := readThread(r, m[k], k, at)
		if r.bad || len(m) >= maxThreads && m[k] == nil {
			r.fail()
			return nil
		}
		if now.Ended { // its number may be reused, even in this tick
			out = append(out, *now)
			delete(m, k)
		} else {
			m[k] = now
		}
	}
	last = threadKey{}
	for range r.count() {
		delete(m, readThreadKey(r, &last))
	}
	if r.bad {
		return nil
	}
	for _, th := range m {
		out = append(out, *th)
	}
	slices.SortFunc(out, tick.ByThread)
	return out
}

// readThread reads an account; before is nil if there is none. It does not change memory shared
// with before, which earlier ticks may use.
func readThread(r *reader, before *tick.Thread, k threadKey, at int64) *tick.Thread {
	marks := r.uint()
	now := tick.Thread{PID: k.pid, TID: k.tid}
	switch {
	case marks > threadMarks || before == nil && marks&threadWhole == 0:
		r.fail()
		return nil
	case marks&threadWhole == 0:
		now = *before
	}
	was := now.Until
	now.Until = at - r.int()
	if marks&threadWhole != 0 {
		now.Since = at - r.int()
	}
	now.Ended, now.Enrolled = marks&threadEnded != 0, marks&threadEnrolled != 0
	if marks&threadComm != 0 {
		if now.Comm = r.string(); len(now.Comm) > maxComm {
			r.fail()
		}
	}
	mask := r.uint()
	for i, v := range times(&now) {
		switch {
		case mask&(1<<i) == 0:
		case marks&threadStill != 0:
			*v += uint64(now.Until - was)
		default:
			*v += uint64(r.int())
		}
	}
	if marks&threadDoing != 0 {
		now.Now = readDoing(r, at)
	}
	if marks&threadOpen != 0 {
		now.Open = readOpen(r, at)
	}
	return &now
}

func readDoing(r *reader, at int64) (d tick.ThreadState) {
	if b := r.bytes(3); b != nil {
		d.State, d.Reason, d.File = events.WaitState(b[0]), events.Reason(b[1]), events.FileKind(b[2])
	}
	d.Syscall, d.Arg, d.Dev, d.CPU = events.Syscall(r.tiny()), r.uint(), r.small(), r.tiny()
	d.Since = at - r.int()
	return d
}

func readOpen(r *reader, at int64) []tick.OpenCall {
	n := r.count()
	if n > maxOpen {
		r.fail()
	}
	if n == 0 || r.bad {
		return nil
	}
	open := make([]tick.OpenCall, n)
	for i := range open {
		o := &open[i]
		o.Op, o.Start, o.Tag = events.Op(r.tiny()), at-r.int(), r.small()
		args := r.count()
		if args > len(o.Args) {
			r.fail()
			return nil
		}
		for j := range args {
			o.Args[j] = r.uint()
		}
	}
	return open
}
