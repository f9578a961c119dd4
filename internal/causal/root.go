package causal

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"ingero/internal/ledger"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// activities maps the reason of a blocked thread to what it did. For a disk, the system call says
// whether it read or wrote.
var activities = map[events.Reason]tick.Activity{
	events.ReasonDisk: tick.ActivityRead, events.ReasonFile: tick.ActivityRead, events.ReasonFault: tick.ActivityPage,
	events.ReasonSocket: tick.ActivityPeer, events.ReasonPoll: tick.ActivityPeer, events.ReasonPipe: tick.ActivityPeer, events.ReasonChild: tick.ActivityPeer,
	events.ReasonSleep: tick.ActivitySleep, events.ReasonLock: tick.ActivityLock, events.ReasonGIL: tick.ActivityLock,
	events.ReasonGPU: tick.ActivityGPU, events.ReasonDevice: tick.ActivityGPU,
}

// writes has the system calls that wait until data is on a disk.
var writes = callsNamed("write", "pwrite64", "writev", "pwritev", "pwritev2", "fsync", "fdatasync", "sync_file_range", "syncfs", "sync",
	"msync", "ftruncate", "fallocate", "rename", "renameat2", "unlink", "unlinkat", "close")

// callsNamed returns the set of the system calls with some names.
func callsNamed(names ...string) map[events.Syscall]bool {
	set := map[events.Syscall]bool{}
	for i := range events.Syscalls {
		if slices.Contains(names, events.Syscalls[i].Name) {
			set[events.Syscall(i)] = true
		}
	}
	return set
}

// root returns the root of a part.
func (p *Part) root() tick.Root {
	switch {
	case p.State == 0:
		return tick.Root{}
	case p.State != events.WaitBlocked && p.Relation.InJob():
		return tick.Root{Whose: p.Relation, Did: tick.ActivityCrowd}
	case p.State != events.WaitBlocked, p.Busy:
		return tick.Root{Whose: p.Relation, Did: tick.ActivityCompute}
	}
	r := tick.Root{Whose: tick.RelationSelf, Did: p.did()}
	switch {
	case r.Did == tick.ActivityUnknown:
		return tick.Root{}
	case p.Via.TID != 0:
		r.Whose = p.ViaRelation
	case p.Who.TID != 0 && (r.Did == tick.ActivityLock || r.Did == tick.ActivityPeer): // the other thread acts
		r.Whose = p.Relation
	}
	return r
}

// did returns what the thread of a blocked part did.
func (p *Part) did() tick.Activity {
	d := activities[p.Reason]
	if p.Flags&events.WaitIO != 0 && p.Reason != events.ReasonFault {
		d = tick.ActivityRead
	}
	if d == tick.ActivityRead && writes[p.Call] {
		return tick.ActivityWrite
	}
	return d
}

// relations has the relations between processes, as of the ticks.
type relations struct {
	parents map[uint32]uint32
	names   map[uint32]string
	groups  map[uint32]string // cgroups, as in /proc/PID/cgroup
	traced  map[uint32]bool   // processes that use CUDA
	steps   map[uint32]bool   // of these, processes with their own steps
	meets   map[uint32]string // what the ranks of one job have in common, by process; "": unknown
	serves  map[uint32]bool   // processes that had clients
	heard   heard
}

// heard has the peers over UDP and UNIX sockets that sent data, by process.
type heard map[uint32]map[string]bool

// asked is a peer that a process queries.
type asked struct {
	pid  uint32
	peer string
}

const (
	maxRelations = 1 << 14
	maxHeard     = 1 << 8 // peers of a process
	maxParent    = 8      // ancestors to examine
)

// note takes in the processes of a tick. Ended processes stay until the table is full.
func (k *relations) note(t *tick.Tick) {
	if k.parents == nil || max(len(k.parents), len(k.serves)) > maxRelations {
		*k = relations{map[uint32]uint32{}, map[uint32]string{}, map[uint32]string{}, map[uint32]bool{}, map[uint32]bool{}, map[uint32]string{}, map[uint32]bool{}, k.heard}
	}
	for i := range t.HostSums {
		switch h := &t.HostSums[i]; {
		case h.Kind == tick.HostReceive && h.FromClient():
			k.serves[h.PID] = true
		case h.Kind == tick.HostUDPReceive || h.Kind == tick.HostUnixReceive:
			k.heard.note(h)
		}
	}
	for i := range t.Requests {
		k.serves[t.Requests[i].PID] = true
	}
	for _, list := range [][]tick.Process{t.Others, t.Processes} {
		for i := range list {
			p := &list[i]
			k.names[p.PID], k.groups[p.PID] = p.Comm, p.Cgroup
			if !p.Ended.IsZero() && t.Time.Sub(p.Ended) > windowSeconds*time.Second { // no window has it
				delete(k.heard, p.PID)
			}
			k.parents[p.PID], k.meets[p.PID], k.traced[p.PID] = p.PPID, meeting(p), !p.Mapped.IsZero() || !p.Attached.IsZero()
		}
	}
}

// note adds the peer of a sum. A full list of peers begins anew.
func (d *heard) note(h *tick.HostSum) {
	if *d == nil || len(*d) > maxRelations {
		*d = heard{}
	}
	if peers := (*d)[h.PID]; peers == nil || len(peers) >= maxHeard && !peers[h.Object] {
		(*d)[h.PID] = map[string]bool{}
	}
	(*d)[h.PID][h.Object] = true
}

// foreign reports whether a thread is known to be of a process outside the job of another one: its relatives may give
// it work. An ancestor that is not known may make them relatives.
func (k *relations) foreign(pid uint32, who *events.Thread) bool {
	self := events.Thread{PID: pid, TID: pid}
	return who.TID != 0 && k.relation(pid, who) == tick.RelationStranger && !k.within(&self, who.PID, "") &&
		!k.within(who, k.parents[pid], "") && k.descends(pid) && k.descends(cmp.Or(who.Parent, who.PID))
}

// descends reports whether all ancestors of a process are known.
func (k *relations) descends(pid uint32) bool {
	for range maxParent {
		if pid <= kthreadd {
			return true
		}
		parent, ok := k.parents[pid]
		if !ok {
			return false
		}
		pid = parent
	}
	return pid <= kthreadd
}

// answers reports whether a process had clients. Ranks are each other's clients.
func (k *relations) answers(pid uint32) bool { return k.serves[pid] && k.meets[pid] == "" }

// server reports whether the victim of a part waited for a worker that answers requests.
func (k *relations) server(p *Part) bool {
	end := p.end()
	if p.Relation != tick.RelationWorker && p.ViaRelation != tick.RelationWorker || p.RootCall.Sends() {
		return false
	}
	if k.answers(p.Victim) && !k.answers(end.PID) { // its client waits for it
		return false
	}
	return p.Server || k.answers(end.PID) && (p.Root == events.ReasonSocket || p.Root == events.ReasonPoll)
}

// add records that a process has steps.
func (k *relations) add(s *ledger.Step) {
	if !s.Period && k.steps != nil && !k.steps[s.PID] {
		k.steps[s.PID] = true
	}
}

// meeting identifies the job of a rank: the address at which its ranks meet, the step of a batch job,
// or the launcher that started them. A loopback address is the one of its pod, container or batch job, another
// address that of its namespace and batch job. In pods, the namespace is enough, except for Slurm: several
// Kubernetes Jobs may form one job, and the address is that of a pod or service.
func meeting(p *tick.Process) string {
	size, known := p.WorldSize.Value()
	switch {
	case p.MeetLocally():
		return cmp.Or(p.PodUID, p.Container, p.Job) + " " + p.Master
	case p.Master != "" && p.PodUID != "" && p.Step == "":
		return p.Namespace + " " + p.Master
	case p.Master != "":
		return p.Namespace + " " + p.Job + " " + p.Master
	case p.Rank == 0 || !known || size < 2:
		return ""
	case p.Job != "":
		return p.Namespace + " " + p.Job + " " + p.Step
	}
	return "child of " + strconv.FormatUint(uint64(p.PPID), 10)
}

// relation returns the relation of a thread to a process. Descendants are its workers, or ranks if
// they have their own steps. The job also includes ancestors that use CUDA, ranks of the same
// job, and the descendants of both.
func (k *relations) relation(pid uint32, who *events.Thread) tick.Relation {
	switch {
	case who.TID == 0 && who.Parent == 0:
		return tick.RelationUnknown
	case who.PID == pid:
		return tick.RelationThread
	case !k.within(who, pid, ""):
	case k.steps[who.PID]:
		return tick.RelationRank
	default:
		return tick.RelationWorker
	}
	top := pid
	for n := 0; n < maxParent && k.traced[k.parents[top]]; n++ {
		top = k.parents[top]
	}
	if k.within(who, top, k.meets[pid]) {
		return tick.RelationRank
	}
	return tick.RelationStranger
}

// within reports whether the process of a thread, or an ancestor of it, is top or meets at a place.
func (k *relations) within(who *events.Thread, top uint32, place string) bool {
	for at, n := max(who.PID, kthreadd+1), 0; at > kthreadd && n < maxParent; n++ {
		switch {
		case at == top || place != "" && k.meets[at] == place:
			return true
		case at == who.PID && who.Parent != 0:
			at = who.Parent
		default:
			at = k.parents[at]
		}
	}
	return false
}

// name gives the thread that had the CPU the name of its process, and names the parent of otherwise
// unknown programs.
func (k *relations) name(p *Part) {
	if p.State != events.WaitRunnable || p.Relation == tick.RelationThread {
		return
	}
	w := &p.Who
	orphans := w.TID == 0 && w.Parent != 0
	if orphans {
		*w = events.Thread{PID: w.Parent, TID: w.Parent}
	}
	if name := k.names[w.PID]; name != "" && (orphans || w.TID != w.PID) {
		w.Name = events.NameOf(name)
	}
}
