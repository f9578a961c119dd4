package xid

import (
	"strings"
	"time"

	"ingero/internal/tick"
)

// slack is the tolerance between the clocks of a fault and of a process.
const slack = 10 * time.Second

// kernelName is the length to which the kernel truncates thread names.
const kernelName = 15

// Victim sets the process that a fault names. traced are the known processes. look reads any other
// process, and the names of its threads. The fault's number is usually of the root namespace. If
// the driver used a container's number, the victim is the only process with that number in its
// namespace whose name matches. If several match, it stays unknown.
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
	case !isTraced && !fits: // another process has that number
		return
	}
	x.PID, x.Comm = host.PID, host.Comm
}

// lived reports whether a process existed at a time.
func lived(p *tick.Process, at int64) bool {
	t := time.Unix(0, at)
	return !p.Started.After(t.Add(slack)) && (p.Ended.IsZero() || p.Ended.After(t.Add(-slack)))
}

// named reports whether one of the names matches the message's, which may be truncated.
func named(x *tick.Xid, names ...string) bool {
	if x.SaidName == "" {
		return true
	}
	for _, name := range names {
		// The name may contain a comma, and the message may have a longer one than the kernel
		// keeps.
		if name != "" && (name == x.SaidName || strings.Contains(x.Msg, "name="+name+",") ||
			len(name) == kernelName && strings.HasPrefix(x.SaidName, name)) {
			return true
		}
	}
	return false
}
