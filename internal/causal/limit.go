package causal

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// limit returns the limit of a kind that a finding's process hit most about the time of the
// finding. ok is false if there is none.
func (w *Window) limit(x *Finding, kind tick.LimitKind) (best tick.Limit, ok bool) {
	type reached struct{ ns, times uint64 }
	sums := map[tick.Limit]reached{}
	for i := range w.host {
		h := &w.host[i]
		if h.Kind != tick.HostLimit || h.PID != x.PID || !about(h, x) {
			continue
		}
		if l, isOne := tick.ParseLimit(h.Object); isOne && l.Kind() == kind {
			r := sums[l]
			sums[l] = reached{r.ns + h.NS, r.times + h.Count}
		}
	}
	for l, r := range sums {
		b := sums[best]
		if !ok || cmp.Or(cmp.Compare(r.ns, b.ns), cmp.Compare(r.times, b.times), cmp.Compare(best.File, l.File)) > 0 {
			best, ok = l, true
		}
	}
	return best, ok
}

// user sums up the threads of one name that used up a quota.
type user struct {
	events.Thread
	relation tick.Relation
	count    int
	ns       uint64
}

const (
	maxUsers  = 3
	userShare = 0.1 // of the group's CPU time: smallest share to name
	// otherShare is the smallest share of the group's CPU time of a process beside the job to name.
	otherShare = 0.3
)

// quotaUsers returns the threads of a finding's job that used up the CPU quota, largest CPU time
// first. It reports names with more threads than the quota has CPUs.
func (w *Window) quotaUsers(x *Finding, cpus float64) (out []user) {
	var all uint64
	var each []user
	alone := w.aloneThrottled(x)
	for i := range w.host {
		h := &w.host[i]
		if h.Kind != tick.HostThreads || !about(h, x) {
			continue
		}
		count, name, _ := strings.Cut(h.Object, " ")
		n, err := strconv.Atoi(count)
		who := events.Thread{PID: h.PID, TID: h.PID, Name: events.NameOf(name)}
		relation := w.e.relations.relation(x.PID, &who)
		stranger := relation == tick.RelationStranger
		if err != nil || stranger && !alone {
			continue
		}
		all += h.NS
		if stranger { // otherUser may name it
			continue
		}
		each = addUser(each, user{who, relation, n, h.NS}, sameProcess, func(a, b int) int { return max(a, b) })
	}
	for _, u := range each {
		out = addUser(out, u, sameRelation, func(a, b int) int { return a + b })
	}
	slices.SortStableFunc(out, func(a, b user) int { return cmp.Or(cmp.Compare(b.ns, a.ns), cmp.Compare(a.PID, b.PID)) })
	out = slices.DeleteFunc(out, func(u user) bool {
		return u.count < 2 || float64(u.count) <= cpus || float64(u.ns) < userShare*float64(all)
	})
	return out[:min(len(out), maxUsers)]
}

// addUser adds a thread to its group, or starts one. alike selects the group; count combines thread
// counts (largest or sum).
func addUser(out []user, u user, alike func(a, b *user) bool, count func(a, b int) int) []user {
	i := slices.IndexFunc(out, func(o user) bool { return o.Name == u.Name && alike(&o, &u) })
	if i < 0 {
		return append(out, u)
	}
	out[i].ns += u.ns
	out[i].count = count(out[i].count, u.count)
	return out
}

func sameProcess(a, b *user) bool  { return a.PID == b.PID }
func sameRelation(a, b *user) bool { return a.relation == b.relation }

// aloneThrottled reports whether no process hit another quota than a finding's process did, about the time of
// the finding.
func (w *Window) aloneThrottled(x *Finding) bool {
	own := map[string]bool{}
	for i := range w.host {
		if h := &w.host[i]; h.Kind == tick.HostLimit && h.PID == x.PID && about(h, x) {
			own[h.Object] = true
		}
	}
	return !slices.ContainsFunc(w.host, func(h HostSample) bool {
		return h.Kind == tick.HostLimit && !own[h.Object] && h.NS > 0 && about(&h, x)
	})
}

// throttledBy completes a finding with the cgroup that has the quota and the threads that used it
// up: the job's own, or the program beside it that used more than they did. The quota is that of the process that
// was throttled most: the victim, or one for which it waited.
func throttledBy(w *Window, x *Finding) bool {
	quota, at := x.Culprits[0], *x
	l, ok := tick.Limit{}, false
	for i := 0; i < len(x.Culprits) && !ok; i++ {
		quota = x.Culprits[i]
		if at.PID = quota.Thread.PID; at.PID == 0 || quota.Own {
			at.PID = x.PID
		}
		l, ok = w.limit(&at, tick.LimitCPU)
	}
	if !ok {
		quota, at.PID = x.Culprits[0], x.PID
		l, ok = w.limit(&at, tick.LimitCPU)
	}
	if ok {
		quota.Limit = l
		quota.What = "CPU quota of " + l.Group + ": " + l.Value()
	}
	x.Culprits = []tick.Culprit{quota}
	users := w.quotaUsers(x, l.CPUs())
	var own uint64
	for _, u := range users {
		own += u.ns
	}
	if other, ok := w.otherUser(&at); ok && other.ns > own {
		users = nil
		x.Culprits = append(x.Culprits, tick.Culprit{
			Thread: other.Thread, Root: tick.Root{Whose: tick.RelationStranger, Did: tick.ActivityCompute},
			What: "used " + span(int64(other.ns)) + " of CPU time in the same cgroup", Lost: time.Duration(x.Lost),
		})
	}
	for _, u := range users {
		x.Culprits = append(x.Culprits, tick.Culprit{
			Thread: u.Thread, Root: tick.Root{Whose: u.relation, Did: tick.ActivityCrowd},
			What: fmt.Sprintf("%d threads, %s of CPU time", u.count, span(int64(u.ns))), Lost: time.Duration(x.Lost),
		})
	}
	return true
}

// otherUser returns the process beside a finding's job that used most of its cgroup's CPU time. ok is false if
// it used less than otherShare of it.
func (w *Window) otherUser(x *Finding) (most user, ok bool) {
	if !w.aloneThrottled(x) {
		return most, false
	}
	var all uint64
	by := map[uint32]user{}
	for i := range w.host {
		h := &w.host[i]
		if h.Kind != tick.HostThreads || !about(h, x) {
			continue
		}
		_, name, _ := strings.Cut(h.Object, " ")
		u := by[h.PID]
		u.Thread, u.ns = events.Thread{PID: h.PID, TID: h.PID, Name: events.NameOf(cmp.Or(h.Comm, name))}, u.ns+h.NS
		by[h.PID], all = u, all+h.NS
	}
	for _, u := range by {
		if w.e.relations.relation(x.PID, &u.Thread) == tick.RelationStranger && (u.ns > most.ns || u.ns == most.ns && u.PID < most.PID) {
			most = u
		}
	}
	return most, most.PID != 0 && float64(most.ns) >= otherShare*float64(all)
}
