//go:build measure

package ledger

import (
	"fmt"
	"os"
	"slices"
	"time"

	"ingero/pkg/events"
)

// checkCharged compares what hogs on the thread's CPU are charged with in calls
// with what they used then by their own clocks. Of that, what they used while the
// quota kept the thread away is not to be charged, for without them it would have
// been kept away as well; they can have used no more than that time. Where so many
// threads had a turn that not all names were kept, the rest may have been a hog's.
func (o *outcome) checkCharged() (wrong []string) {
	hogs := slices.Concat(o.culprits, o.threads)
	charged, most, least := make([]int64, len(hogs)), make([]int64, len(hogs)), make([]int64, len(hogs))
	var nameless int64
	calls, _ := o.own()
	eachCall(calls, o.waitsOf(o.pid), func(i int, in []events.Wait) {
		t := &o.truths[i]
		if t.disturbed() {
			return
		}
		nameless += taken(in, func(w *events.Wait) bool { return w.Flags&events.WaitOthers != 0 })
		for n, who := range hogs {
			charged[n] += taken(in, func(w *events.Wait) bool { return w.Who.TID == who })
			least[n] += t.hog[n] - t.throttled
			most[n] += min(t.hog[n], t.delay-t.throttled)
		}
	})
	if all := int64(len(calls)) * int64(o.workload.each); nameless > all/4 {
		wrong = append(wrong, fmt.Sprintf("%v of the CPU's time have no name", time.Duration(nameless)))
	}
	for n, who := range hogs {
		if charged[n]+nameless < least[n]-most[n]*3/100 || charged[n] > most[n]+most[n]*3/100 {
			wrong = append(wrong, fmt.Sprintf("thread %d is charged with %v, it used between %v and %v (%v have no name)",
				who, time.Duration(charged[n]), time.Duration(least[n]), time.Duration(most[n]), time.Duration(nameless)))
		}
	}
	return append(wrong, o.checkNames()...)
}

// checkNames: a culprit is named with its process and that one's parent.
func (o *outcome) checkNames() (wrong []string) {
	for _, w := range o.waitsOf(o.pid) {
		who := events.Thread{PID: w.Who.TID, TID: w.Who.TID, Parent: uint32(os.Getpid()), Name: events.NameOf("hog"), Cgroup: w.Who.Cgroup}
		switch {
		case slices.Contains(o.threads, w.Who.TID):
			who.PID, who.Name = o.pid, events.NameOf("truth")
		case !slices.Contains(o.culprits, w.Who.TID):
			continue
		}
		if w.Who != who {
			wrong = append(wrong, fmt.Sprintf("culprit %+v, want %+v", w.Who, who))
		}
	}
	return wrong
}

// checkMoved: a thread that is moved while it waits goes on waiting for the other
// CPU, and each CPU's hog is charged for its own part.
func (o *outcome) checkMoved() (wrong []string) {
	var moved, hogged int
	waits := slices.DeleteFunc(o.waitsOf(o.pid), func(w events.Wait) bool { return w.State != events.WaitRunnable })
	for i, w := range waits {
		for n, cpu := range []int{o.cpu, o.other} {
			if w.Who.TID == o.culprits[n] {
				if hogged++; int(w.CPU) != cpu {
					wrong = append(wrong, fmt.Sprintf("the hog of CPU %d is charged with a wait for CPU %d", cpu, w.CPU))
				}
			}
		}
		if w.Flags&events.WaitMoved == 0 || w.Flags&events.WaitPrevious != 0 {
			continue
		}
		moved++
		next := slices.IndexFunc(waits[i+1:], func(x events.Wait) bool { return x.Flags&events.WaitPrevious == 0 })
		if next < 0 {
			continue
		}
		// A rest that is too short for a record is in the sums alone.
		if after := waits[i+1+next]; abs(after.Start, w.End()) < int64(recorded) && after.CPU == w.CPU {
			wrong = append(wrong, fmt.Sprintf("moved away from CPU %d, and waits on for CPU %d", w.CPU, after.CPU))
		}
	}
	if moved < 10 || hogged < 10 {
		wrong = append(wrong, fmt.Sprintf("%d waits were moved, %d hogged, want more", moved, hogged))
	}
	return append(wrong, o.checkNames()...)
}
