package causal

import (
	"cmp"
	"strconv"
	"strings"
	"testing"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// fact is a host sum that a scenario adds to each tick in a time range, ns since the start.
type fact struct {
	from, to int64
	tick.HostSum
	gpu     string // fact of another kind: see gpuFacts
	every   int64
	tid     uint32         // that reads a request
	holders []tick.Process // of locks
}

// factOf parses the line of a fact.
func factOf(t testing.TB, f []string, o option) fact {
	x := fact{from: o.from, to: o.to, every: o.every}
	if gpuFacts[f[1]] != nil {
		x.gpu = f[1]
	}
	for k := tick.HostEvent(1); k.String() != "?"; k++ {
		if k.String() == f[1] {
			x.Kind = k
		}
	}
	if x.Kind == 0 && x.gpu == "" {
		t.Fatalf("the host knows no %q", f[1])
	}
	x.PID, x.Object, x.NS, x.Bytes, x.Count = uint32(o.pid), strings.ReplaceAll(o.of, "~", " "), uint64(o.ns), uint64(o.bytes), uint64(max(o.count, 1))
	x.tid = cmp.Or(o.who.TID, x.PID)
	if o.who.PID != 0 {
		x.PID, x.Comm = o.who.PID, o.who.Name.String()
	}
	return x
}

// factsAt adds the facts of a tick's time.
func factsAt(t *tick.Tick, facts []fact) {
	if len(t.Processes) == 0 {
		t.Processes = []tick.Process{{PID: 7, Comm: "train", Cgroup: "/job"}}
	}
	at := t.Time.UnixNano() - start
	for _, f := range facts {
		if at > f.from && at <= f.to {
			if f.gpu != "" {
				gpuFacts[f.gpu](t, &f, at)
				continue
			}
			t.Others = append(t.Others, f.holders...)
			if f.Kind != 0 {
				t.HostSums = append(t.HostSums, f.HostSum)
			}
		}
	}
}

func reason(t testing.TB, v string) events.Reason {
	for r := events.ReasonUnknown; r <= events.ReasonGIL; r++ {
		if r.String() == v {
			return r
		}
	}
	t.Fatalf("no reason is called %q", v)
	return 0
}

// thread parses NAME/PID; a name may contain slashes.
func thread(t testing.TB, v string) events.Thread {
	i := strings.LastIndexByte(v, '/')
	if i < 0 {
		t.Fatalf("%q is no NAME/PID", v)
	}
	n, err := strconv.Atoi(v[i+1:])
	if err != nil {
		t.Fatal(err)
	}
	th := events.Thread{PID: uint32(n), TID: uint32(n), Name: events.NameOf(v[:i]), Parent: 711}
	if strings.HasPrefix(v, "kworker") {
		th.Parent = kthreadd
	}
	switch {
	case n == 8: // a thread of the program
		th.PID = 7
	case n >= 40 && n < 50: // a worker that the program started
		th.Parent = 7
	}
	return th
}

func syscall(t testing.TB, name string) events.Syscall {
	for i := range events.Syscalls {
		if events.Syscalls[i].Name == name {
			return events.Syscall(i)
		}
	}
	t.Fatalf("no system call is %q", name)
	return 0
}
