package causal

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ingero/internal/stats"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// cudaCall has the options of a traced call's line, besides its time:
//
//	[new] [old] [err=N] [times=N] [bytes=N] [kind=N] [args=A,B,...] [in=A-B/E]
//
// new: it returns a new address; old: it gets the latest address not yet freed. in: only in steps A
// to B, each E-th of them. A line with "fault" is left out of the run without faults.
type cudaCall struct {
	fresh, old, fault bool
	err               int32
	times             int
	tag               uint32
	args              []uint64
	from, to, each    int
}

func cudaCallOf(t testing.TB, f []string) cudaCall {
	c := cudaCall{times: 1, to: 1 << 30, each: 1}
	number := func(v string) int {
		n, err := strconv.Atoi(v)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, x := range f {
		switch k, v, _ := strings.Cut(x, "="); k {
		case "new":
			c.fresh = true
		case "old":
			c.old = true
		case "fault":
			c.fault = true
		case "err":
			c.err = int32(number(v))
		case "times":
			c.times = number(v)
		case "kind":
			c.tag = uint32(number(v))
		case "args":
			for a := range strings.SplitSeq(v, ",") {
				c.args = append(c.args, uint64(number(a)))
			}
		case "in":
			span, each, ok := strings.Cut(v, "/")
			a, b, _ := strings.Cut(span, "-")
			c.from, c.to = number(a), number(b)
			if ok {
				c.each = number(each)
			}
		}
	}
	return c
}

// here reports whether the call is made in a step.
func (c *cudaCall) here(n int, off bool) bool {
	return n >= c.from && n <= c.to && (n-c.from)%c.each == 0 && !(c.fault && off)
}

// callWords are the call options that other lines do not have.
var callWords = []string{"err", "times", "kind", "args", "in"}

// give fills in the last call.
func (t *simThread) give(c *cudaCall, bytes uint64) {
	x := &t.calls[len(t.calls)-1]
	x.Tag, x.Result = c.tag, c.err
	if c.err != 0 {
		x.Flags |= events.CallFailed
	}
	args := slices.Clone(c.args)
	if bytes > 0 {
		args = append([]uint64{bytes}, args...)
	}
	switch {
	case c.old && len(t.held) > 0:
		last := len(t.held) - 1
		args = append([]uint64{t.held[last]}, args...)
		t.held = t.held[:last]
	case c.fresh && c.err == 0:
		t.given += 1 << 32
		t.held = append(t.held, t.given)
		args = append(args, t.given)
	}
	copy(x.Args[:], args)
}

// ticked adds the processes that made calls to a tick, with the sums of these calls.
func (s *account) ticked(to *tick.Tick) {
	last := map[opKey]*tick.Counts{}
	for i := range s.calls {
		c := &s.calls[i]
		k := opKey{c.PID, c.Op}
		if last[k] == nil {
			last[k] = &tick.Counts{}
		}
		last[k].Calls++
		if c.Flags&events.CallUnmeasured != 0 {
			last[k].Unmeasured++
			continue
		}
		last[k].Done++
		if c.Flags&events.CallFailed != 0 {
			last[k].Errors++
		}
		last[k].Total += uint64(c.Duration)
		s.hist(k).Record(c.Duration, 1)
		if !slices.Contains(s.pids, c.PID) {
			s.pids = append(s.pids, c.PID)
			slices.Sort(s.pids)
		}
	}
	s.calls = s.calls[:0]
	for _, pid := range s.pids {
		p := tick.Process{PID: pid, Comm: "train", Cgroup: "/job", Started: time.Unix(0, start), Mapped: time.Unix(0, start+s.from), Attached: time.Unix(0, start)}
		if pid != 7 {
			p.PPID = 7
		}
		to.Processes = append(to.Processes, p)
	}
	for k, c := range last {
		to.Ops = append(to.Ops, tick.Op{PID: k.pid, Op: k.op, Last: *c, Hist: new(*s.hist(k))})
	}
	slices.SortFunc(to.Ops, func(a, b tick.Op) int { return int(a.Op) - int(b.Op) })
}

// account has the calls since the last tick, and all processes.
type account struct {
	from  int64
	calls []events.Call
	pids  []uint32
	hists map[opKey]*stats.Hist // since the start
}

type opKey struct {
	pid uint32
	op  events.Op
}

// hist returns the kernel's histogram of an operation.
func (s *account) hist(k opKey) *stats.Hist {
	if s.hists == nil {
		s.hists = map[opKey]*stats.Hist{}
	}
	if s.hists[k] == nil {
		s.hists[k] = &stats.Hist{}
	}
	return s.hists[k]
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
