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
func (w *Window) quotaUsers(x *Finding, q *cpuQuota) (out []user) {
	var all uint64
	var each []user
	for i := range w.host {
		h := &w.host[i]
		if h.Kind != tick.HostThreads || !about(h, x) {
			continue
		}
		count, name, _ := strings.Cut(h.Object, " ")
		n, err := strconv.Atoi(count)
		who := events.Thread{PID: h.PID, TID: h.PID, Name: events.NameOf(name)}
		relation := w.e.relations.relation(x.PID, &who)
		if err != nil || !q.counts(h.PID, relation) {
			continue
		}
		all += h.NS
		if relation == tick.RelationStranger { // otherUser may name it
			continue
		}
		each = addUser(each, user{who, relation, n, h.NS}, sameProcess, func(a, b int) int { return max(a, b) })
	}
	for _, u := range each {
		out = addUser(out, u, sameRelation, func(a, b int) int { return a + b })
	}
	slices.SortStableFunc(out, func(a, b user) int { return cmp.Or(cmp.Compare(b.ns, a.ns), cmp.Compare(a.PID, b.PID)) })
	out = slices.DeleteFunc(out, func(u user) bool {
		return u.count < 2 || float64(u.count) <= q.cpus || float64(u.ns) < userShare*float64(all)
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

// cpuQuota is a CPU quota with the processes that may have used it.
type cpuQuota struct {
	cpus   float64
	group  string            // cgroup with the quota, as written in groups; "": unknown
	groups map[uint32]string // cgroups of processes
	alone  bool              // nobody hit another quota
}

// cpuQuota returns the quota that a finding's process hit.
func (w *Window) cpuQuota(x *Finding, l *tick.Limit) *cpuQuota {
	groups := w.e.relations.groups
	return &cpuQuota{l.CPUs(), groupSeen(l.Group, groups[x.PID]), groups, w.aloneThrottled(x)}
}

// counts reports whether the CPU time of a process counts for the quota. The threads of groups with other quotas
// are read, too. If the process's group is unknown, it counts if it belongs to the job, or nobody hit another
// quota.
func (q *cpuQuota) counts(pid uint32, relation tick.Relation) bool {
	if at := q.groups[pid]; q.group != "" && at != "" {
		return at == q.group || strings.HasPrefix(at, q.group+"/")
	}
	return q.alone || relation != tick.RelationStranger
}

// groupSeen returns the path of a group as the paths of processes are written; own is the path of a process in
// it. From a cgroup namespace, the group "/kubepods/pod1" of the process "/../../pod1/c1" is "/../../pod1". The
// result is "" if the paths do not match, as for two hierarchies of version 1.
func groupSeen(group, own string) string {
	for at := own; strings.HasPrefix(at, "/"); at = at[:strings.LastIndexByte(at, '/')] {
		names := at
		for strings.HasPrefix(names+"/", "/../") {
			names = names[len("/.."):]
		}
		if names == "" {
			break
		}
		if strings.HasSuffix(group, names) {
			return at
		}
	}
	return ""
}

// threadsRead is how long after the last throttling of a process the threads of its group are read, in ns. The
// sum of the last second ends later.
const threadsRead = 31e9

// aloneThrottled reports whether no process hit another quota than a finding's process did, about the time of
// the finding, or so shortly before that its group's threads were still read.
func (w *Window) aloneThrottled(x *Finding) bool {
	longer := *x
	longer.From -= threadsRead
	own := map[string]bool{}
	for i := range w.host {
		if h := &w.host[i]; h.Kind == tick.HostLimit && h.PID == x.PID && about(h, &longer) {
			own[h.Object] = true
		}
	}
	return !slices.ContainsFunc(w.host, func(h HostSample) bool {
		return h.Kind == tick.HostLimit && !own[h.Object] && h.NS > 0 && about(&h, &longer)
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
	q := w.cpuQuota(&at, &l)
	users := w.quotaUsers(x, q)
	var own uint64
	for _, u := range users {
		own += u.ns
	}
	if other, ok := w.otherUser(&at, q); ok && other.ns > own {
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
func (w *Window) otherUser(x *Finding, q *cpuQuota) (most user, ok bool) {
	var all uint64
	by := map[uint32]user{}
	for i := range w.host {
		h := &w.host[i]
		if h.Kind != tick.HostThreads || !about(h, x) {
			continue
		}
		_, name, _ := strings.Cut(h.Object, " ")
		u := by[h.PID]
		u.Thread = events.Thread{PID: h.PID, TID: h.PID, Name: events.NameOf(cmp.Or(h.Comm, name))}
		if u.relation = w.e.relations.relation(x.PID, &u.Thread); !q.counts(h.PID, u.relation) {
			continue
		}
		u.ns += h.NS
		by[h.PID], all = u, all+h.NS
	}
	for _, u := range by {
		if u.relation == tick.RelationStranger && (u.ns > most.ns || u.ns == most.ns && u.PID < most.PID) {
			most = u
		}
	}
	return most, most.PID != 0 && float64(most.ns) >= otherShare*float64(all)
}
