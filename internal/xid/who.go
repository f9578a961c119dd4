package xid

import (
	"strings"
	"time"

	"ingero/internal/tick"
)

// slack is by how much the clocks of a fault and of a process may be apart.
const slack = 10 * time.Second

// kernelName is the length of the names that the kernel keeps of threads.
const kernelName = 15

// Victim sets the process that a fault names. traced are those that are known; look
// reads of any other what is known of it now, and names is what its threads are
// called. The number is the root namespace's as a rule, and a container's own where
// the driver did not know better: then it is the one process of that number in its
// namespace whose name fits. Where several could be meant it is none.
func Victim(x *tick.Xid, traced []tick.Process, look func(pid uint32) (p tick.Process, names []string, ok bool)) {
	if x.SaidPID == 0 {
		return
	}
	var host, inside *tick.Process
	isTraced, several := false, false
	for i := range traced {
		p := &traced[i]
		if !lived(p, x.Time) {
			continue
		}
		if p.PID == x.SaidPID {
			host, isTraced = p, true
		} else if p.NSPID == x.SaidPID && named(x, p.Comm) {
			several = inside != nil
			inside = p
		}
	}
	var names []string
	if p, more, ok := look(x.SaidPID); ok && lived(&p, x.Time) {
		names = more
		if host == nil {
			host = &p
		}
	}
	fits := host != nil && named(x, append(names, host.Comm)...)
	switch {
	case fits && (x.SaidName != "" || inside == nil || isTraced):
	case inside != nil && !several:
		host = inside
	case !isTraced && !fits: // whoever has that number is another
		return
	}
	x.PID, x.Comm = host.PID, host.Comm
}

// lived tells whether a process was there at a time.
func lived(p *tick.Process, at int64) bool {
	t := time.Unix(0, at)
	return !p.Started.After(t.Add(slack)) && (p.Ended.IsZero() || p.Ended.After(t.Add(-slack)))
}

// named tells whether one of the names is what the message says, as far as it says it.
func named(x *tick.Xid, names ...string) bool {
	if x.SaidName == "" {
		return true
	}
	for _, name := range names {
		// A name may have a comma in it, and the message a longer one than the kernel.
		if name != "" && (name == x.SaidName || strings.Contains(x.Msg, "name="+name+",") ||
			len(name) == kernelName && strings.HasPrefix(x.SaidName, name)) {
			return true
		}
	}
	return false
}
