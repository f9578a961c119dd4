package rollcall

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

const (
	ms    = int64(time.Millisecond)
	began = int64(1_700_000_000_000_000_000)
	id    = 0xabc
)

// play is a communicator of some ranks, as a session sees it.
type play struct {
	t     *testing.T
	roll  *Roll
	op    events.Op
	now   int64
	ranks []*rank
	procs []tick.ProcEvent
	lates []tick.Straggler
}

type rank struct {
	tick.Comm
	pid     uint32
	entered []tick.Entry
	thread  tick.Thread
	gone    bool
}

func newPlay(t *testing.T, ranks int) *play {
	op, ok := events.OpByName("ncclAllReduce")
	if !ok {
		t.Fatal("the catalog has no ncclAllReduce")
	}
	p := &play{t: t, roll: New(), op: op, now: began}
	for i := range ranks {
		pid := uint32(100 + i)
		p.ranks = append(p.ranks, &rank{pid: pid, thread: tick.Thread{PID: pid, TID: pid},
			Comm: tick.Comm{Number: uint64(i + 1), Handle: 0xc0 + uint64(i), ID: id, Rank: int32(i), Ranks: uint32(ranks), Began: began, Last: tick.CommOp{TID: pid}}})
	}
	return p
}

// enter makes a rank enter its next collective, after a delay from now.
func (p *play) enter(i int, after time.Duration) {
	r := p.ranks[i]
	at := p.now + int64(after)
	r.Collectives++
	r.Seq++
	r.Last = tick.CommOp{Op: p.op, TID: r.pid, Time: at}
	r.entered = append(r.entered, tick.Entry{Comm: r.Number, Time: at, Op: p.op})
}

func (p *play) all(spread time.Duration) {
	for i := range p.ranks {
		p.enter(i, spread*time.Duration(i)/time.Duration(len(p.ranks)))
	}
}

// tick advances the time, and describes the missing ranks.
func (p *play) tick(d time.Duration) string {
	p.now += int64(d)
	p.roll.Batch(p.procs)
	p.procs = nil
	t := tick.Tick{Time: time.Unix(0, p.now)}
	for _, r := range p.ranks {
		if !r.gone {
			t.States = append(t.States, tick.State{PID: r.pid, Comms: tick.List[tick.Comm]{First: []tick.Comm{r.Comm}, All: 1}, Entered: r.entered})
			t.Threads = append(t.Threads, r.thread)
		}
		r.entered = nil
	}
	t.RollCalls, p.lates = p.roll.Tick(t.Time, t.States, t.Threads)
	var out []string
	for _, c := range t.RollCalls {
		s := fmt.Sprintf("%s #%d since %v entered", c.Op, c.Seq, time.Duration(p.now-c.Since))
		for _, e := range c.Entered {
			s += fmt.Sprintf(" %d", e.Rank)
		}
		for i := range c.Missing {
			m := &c.Missing[i]
			s += fmt.Sprintf(" missing %d", m.Rank.Rank)
			switch {
			case m.End.Time != 0:
				s += fmt.Sprintf(" ended %d", m.End.Signal)
			case m.State != tick.CommActive:
				s += " " + m.State.String()
			case m.Open.Op != 0:
				s += " in " + m.Open.Op.String()
			case m.Now.State != 0:
				s += " " + m.Now.Reason.String()
			}
		}
		out = append(out, s)
	}
	return strings.Join(out, "; ")
}

func (p *play) exit(i int, signal uint8) {
	pid := p.ranks[i].pid
	if signal != 0 {
		p.procs = append(p.procs, tick.ProcEvent{Time: p.now, Kind: tick.ProcKilled, PID: pid, Peer: 1, Comm: "init", Signal: signal})
	}
	p.procs = append(p.procs, tick.ProcEvent{Time: p.now, Kind: tick.ProcExited, PID: pid})
}

func TestCall(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(p *play)
		want []string // of each following second
	}{
		{"all enter", func(p *play) { p.all(300 * time.Millisecond) }, []string{"", "", ""}},
		{"one does not", func(p *play) {
			p.all(time.Millisecond)
			p.enter(0, 20*time.Millisecond)
			p.enter(2, 30*time.Millisecond)
			p.ranks[1].thread.Now = tick.ThreadState{State: events.WaitBlocked, Reason: events.ReasonDisk}
		}, []string{"", "ncclAllReduce #2 since 1.98s entered 0 2 missing 1 disk"}},
		{"two do not, one of them further behind", func(p *play) {
			p.all(0)
			p.all(0)
			for range 3 {
				p.enter(0, 0)
			}
			p.enter(1, 0)
		}, []string{"", "ncclAllReduce #3 since 2s entered 0 1 missing 2"}},
		{"one comes late", func(p *play) {
			p.enter(0, 0)
			p.enter(1, 0)
			p.tick(900 * time.Millisecond)
			p.enter(2, 0)
		}, []string{"", "", ""}},
		{"others run ahead", func(p *play) {
			for range 3000 {
				p.enter(0, 0)
				p.enter(1, 0)
			}
			p.enter(2, 0)
		}, []string{"", "op(0x0000) #2 since 2s entered 0 1 missing 2"}},
		{"one is in it", func(p *play) {
			p.enter(0, 0)
			p.enter(1, 0)
			p.ranks[2].thread.Open = []tick.OpenCall{{Op: p.op, Start: p.now, Args: args(p.t, p.op, 0xc2)}}
		}, []string{"", "", ""}},
		{"one is in that of another communicator", func(p *play) {
			p.enter(0, 0)
			p.enter(1, 0)
			p.ranks[2].thread.Open = []tick.OpenCall{{Op: p.op, Start: p.now, Args: args(p.t, p.op, 0xdd)}}
		}, []string{"", "ncclAllReduce #1 since 2s entered 0 1 missing 2 in ncclAllReduce"}},
		{"one is killed, before others come", func(p *play) {
			p.all(0)
			p.exit(1, 9)
		}, []string{"op(0x0000) #2 since 1s entered missing 1 ended 9"}},
		{"one is killed, and others come", func(p *play) {
			p.all(0)
			p.exit(1, 9)
			p.enter(0, 10*time.Millisecond)
			p.enter(2, 10*time.Millisecond)
		}, []string{"ncclAllReduce #2 since 990ms entered 0 2 missing 1 ended 9"}},
		{"one ends, and others come", func(p *play) {
			p.all(0)
			p.exit(1, 0)
			p.enter(0, 10*time.Millisecond)
		}, []string{"ncclAllReduce #2 since 990ms entered 0 missing 1 ended 0"}},
		{"all end, one after another", func(p *play) {
			p.all(0)
			p.exit(1, 0)
			p.tick(time.Second)
			p.exit(0, 0)
			p.tick(time.Second)
			p.exit(2, 0)
		}, []string{""}},
		{"all are killed at once", func(p *play) {
			p.all(0)
			p.exit(0, 15)
			p.exit(1, 15)
			p.exit(2, 15)
		}, []string{"", ""}},
		{"one left the communicator", func(p *play) {
			p.all(0)
			p.tick(time.Second)
			p.ranks[2].State = tick.CommAborted
			p.enter(0, 0)
		}, []string{"ncclAllReduce #2 since 1s entered 0 missing 2 aborted"}},
		{"all left it", func(p *play) {
			p.enter(0, 0)
			for _, r := range p.ranks {
				r.State = tick.CommDestroyed
			}
		}, []string{"", ""}},
		{"it was made before", func(p *play) {
			p.enter(0, 0)
			for _, r := range p.ranks {
				r.Began = 0
			}
		}, []string{"", ""}},
		{"records are missing", func(p *play) {
			p.enter(0, 0)
			p.enter(1, 0)
			p.ranks[2].Inexact = true
		}, []string{"", ""}},
		{"uneven ranks, as they always are", func(p *play) {
			for range 100 {
				p.all(1500 * time.Millisecond)
				if s := p.tick(time.Second); s != "" {
					p.t.Errorf("after a steady step: %s", s)
				}
				p.tick(time.Second)
			}
			p.enter(0, 0)
			p.enter(1, 0)
		}, []string{"", "", "", "", "ncclAllReduce #101 since 5s entered 0 1 missing 2"}},
		{"the state of a process is dropped long after its end", func(p *play) {
			p.all(0)
			p.exit(1, 9)
			p.enter(0, 0)
			p.enter(2, 0)
			p.tick(time.Second)
			p.ranks[1].gone = true
		}, []string{"ncclAllReduce #2 since 2s entered 0 2 missing 1 ended 9", "ncclAllReduce #2 since 3s entered 0 2 missing 1 ended 9"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlay(t, 3)
			tt.do(p)
			for i, want := range tt.want {
				if got := p.tick(time.Second); got != want {
					t.Errorf("after %d s: %q, want %q", i+1, got, want)
				}
			}
		})
	}
}

// args returns the arguments of an operation of a communicator.
func args(t *testing.T, op events.Op, handle uint64) (out [events.MaxArgs]uint64) {
	t.Helper()
	for i := range op.Row().Keep {
		out[i] = handle
		c := events.Call{Op: op, Args: out}
		if v, _ := c.Value(events.RoleComm); v == handle {
			return out
		}
		out[i] = 0
	}
	t.Fatalf("%s has no communicator", op)
	return out
}

// A record that arrives after a tick is no absence, however late that tick is.
func TestRecordOnItsWay(t *testing.T) {
	p := newPlay(t, 2)
	p.all(0)
	p.tick(time.Second)
	p.enter(0, time.Millisecond)
	if s := p.tick(5 * time.Second); s != "" { // the session had no CPU
		t.Errorf("in the first tick: %s", s)
	}
	p.enter(1, 0)
	if s := p.tick(time.Second); s != "" {
		t.Errorf("after the record came: %s", s)
	}
}

// A communicator without active ranks is forgotten.
func TestForget(t *testing.T) {
	p := newPlay(t, 3)
	p.all(0)
	p.tick(time.Second)
	for i := range p.ranks {
		p.exit(i, 0)
	}
	check := func(when string) {
		t.Helper()
		if p.tick(time.Second); len(p.roll.groups) != 0 || len(p.roll.members) != 0 {
			t.Errorf("%s: %d communicators and %d ranks are kept", when, len(p.roll.groups), len(p.roll.members))
		}
	}
	check("at their end")
	for _, r := range p.ranks {
		r.gone = false
	}
	check("while the states of the ended processes are kept")
	check("a tick later")
	for _, r := range p.ranks {
		r.gone = true
	}
	if check("without states"); len(p.roll.over) != 0 {
		t.Errorf("%d numbers are kept", len(p.roll.over))
	}
}

// The late rank and the lateness are reported once for all calls of a group.
func TestLates(t *testing.T) {
	p := newPlay(t, 3)
	for range 4 { // a group
		p.enter(0, 0)
		p.enter(2, time.Millisecond)
		p.enter(1, 21*time.Millisecond)
		p.now += 5000
	}
	p.all(time.Microsecond)
	p.tick(time.Second)
	if len(p.lates) != 1 {
		t.Fatalf("%+v, want one", p.lates)
	}
	x := p.lates[0]
	if d := time.Duration(x.To - x.From); x.Rank.Rank != 1 || x.Comm != id || x.From != began+ms || d < 20*time.Millisecond || d > 21*time.Millisecond {
		t.Errorf("%+v", x)
	}
}

// Nobody waits for the only rank of a communicator on this machine.
func TestLoneRank(t *testing.T) {
	p := newPlay(t, 1)
	for range 4 {
		p.enter(0, 0)
		p.now += 5000
	}
	if p.tick(time.Second); len(p.lates) > 0 {
		t.Errorf("%+v", p.lates)
	}
}
