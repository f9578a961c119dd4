package session

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"ingero/internal/decode"
	"ingero/internal/proc"
	"ingero/internal/python"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// sleeper starts a process, and returns an address of its code.
func sleeper(t *testing.T) (c *testkit.Child, pid uint32, ip uint64) {
	t.Helper()
	c = testkit.Start(t, exec.Command("/bin/cat"))
	c.Send("up")
	c.Line("up")
	pid = uint32(c.PID())
	code, err := proc.FS{}.Code(pid, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return c, pid, code[0].Start + 8
}

func stackAt(pid uint32, ip uint64, at time.Time) *tick.RawStack {
	return &tick.RawStack{ID: 1, PID: pid, Time: at.UnixNano(), IPs: []uint64{ip}}
}

// Stacks of an ended process can be named for a while, if it was known; then all its data is gone.
func TestFramerForgets(t *testing.T) {
	testkit.NeedRoot(t)
	clock, err := decode.Now()
	if err != nil {
		t.Fatal(err)
	}
	f := newFramer(&memories{}, clock)
	c, pid, ip := sleeper(t)
	f.seen(pid)
	began := time.Now()
	f.Life(tick.ProcEvent{Kind: tick.ProcForked, PID: pid, Peer: 1 << 30, Time: began.UnixNano()})
	c.CloseStdin()
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	over := time.Now()
	for _, p := range []uint32{pid, 1 << 30} {
		f.Life(tick.ProcEvent{Kind: tick.ProcExited, PID: p, Time: over.UnixNano()})
		if got := f.Frames(stackAt(p, ip, began)); len(got) != 1 || got[0].Module == "" {
			t.Errorf("process %d, from before its end: %+v", p, got)
		}
	}
	f.trim(over.Add(lateStacks / 2).UnixNano())
	if n := f.native.Figures().Processes; n != 2 {
		t.Errorf("%d processes are known soon after their end, want 2", n)
	}
	f.trim(over.Add(2 * lateStacks).UnixNano())
	bytes, python := f.codes.Size()
	if n := f.native.Figures().Processes; n != 0 || bytes != 0 || python != 0 || len(f.lives) != 0 {
		t.Errorf("kept of what has ended: %d processes, %d interpreters with %d bytes, %d lives", n, python, bytes, len(f.lives))
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// After an exec, stacks of the old and of the new program have their own names.
func TestFramerOfAnotherProgram(t *testing.T) {
	testkit.NeedRoot(t)
	own := uint32(os.Getpid())
	now := time.Now()
	code, err := proc.FS{}.Code(own, now)
	if err != nil {
		t.Fatal(err)
	}
	ip := code[0].Start + 8
	before, after := stackAt(own, ip, now), stackAt(own, ip, now.Add(2*time.Second))
	execed := tick.ProcEvent{Kind: tick.ProcExeced, PID: own, Time: now.Add(time.Second).UnixNano()}
	gap := func(got []events.Frame) bool { return len(got) == 1 && got[0].Kind == events.FrameGap }
	for name, tt := range map[string]struct {
		news   bool // the new program's mappings are read before the exec is reported
		asked  bool // a stack of the new program precedes one of the old
		wanted bool // the old program's stack can still be named
	}{
		"in order":           {false, false, true},
		"the new one first":  {false, true, false},
		"known before":       {true, false, false},
		"known before, used": {true, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFramer(&memories{}, decode.Clock{})
			defer f.Close()
			f.publish(finding{pid: own, at: now.UnixNano(), code: code})
			if tt.news {
				f.publish(finding{pid: own, at: execed.Time + 1, code: code})
			}
			f.Life(execed)
			if tt.asked {
				if got := f.Frames(after); gap(got) || got[0].Module == "" {
					t.Errorf("of the new program: %+v", got)
				}
			}
			if got := f.Frames(before); gap(got) == tt.wanted {
				t.Errorf("of the old one: %+v", got)
			}
			if got := f.Frames(after); gap(got) || got[0].Module == "" {
				t.Errorf("of the new program, then: %+v", got)
			}
		})
	}
}

// The interpreter of a program that has replaced another one is known, in any order of what is found
// and reported. That of the replaced program is not used for the new one.
func TestFramerOfAnotherInterpreter(t *testing.T) {
	const pid, at = 1 << 30, int64(1000) // of the exec
	is := &python.Process{Facts: python.Facts{Epoch: 1, Layout: python.Layout{CoBytes: 8}}}
	type step func(f *framer)
	interpreter := func(at int64) step { return func(f *framer) { f.setInterpreter(pid, is, at) } }
	code := func(at int64) step {
		return func(f *framer) {
			f.publish(finding{pid: pid, at: at, code: []proc.Mapping{{Start: 1, End: 2, Exec: true}}})
		}
	}
	exec := func(f *framer) { f.Life(tick.ProcEvent{Kind: tick.ProcExeced, PID: pid, Time: at}) }
	fork := func(f *framer) { f.Life(tick.ProcEvent{Kind: tick.ProcForked, PID: pid + 1, Peer: pid, Time: at}) }
	lost := func(f *framer) { f.Life(tick.ProcEvent{}) }
	stack := func(f *framer) {
		f.Frames(&tick.RawStack{PID: pid, Time: at + 5, PyEpoch: 1, Py: []tick.PyFrame{{Code: 4096}}})
	}
	for name, tt := range map[string]struct {
		steps []step
		known bool
	}{
		"in order":                   {[]step{exec, code(at + 1), interpreter(at + 2)}, true},
		"interpreter first":          {[]step{exec, interpreter(at + 1), code(at + 2)}, true},
		"interpreter only":           {[]step{exec, interpreter(at + 1)}, true},
		"interpreter before":         {[]step{interpreter(at + 1), exec, code(at + 2)}, true},
		"interpreter before, only":   {[]step{interpreter(at + 1), exec}, true},
		"both before":                {[]step{interpreter(at + 1), code(at + 2), exec}, true},
		"after the replaced one":     {[]step{interpreter(at - 2), code(at - 1), exec, interpreter(at + 1), code(at + 2)}, true},
		"after a stack":              {[]step{interpreter(at - 2), exec, stack, interpreter(at + 1), code(at + 2)}, true},
		"of a child, before":         {[]step{interpreter(at + 1), fork, code(at + 2)}, true},
		"only of the replaced one":   {[]step{interpreter(at - 1), exec}, false},
		"replaced, with other code":  {[]step{interpreter(at - 1), exec, code(at + 1)}, false},
		"replaced, with code before": {[]step{interpreter(at - 1), code(at + 1), exec}, false},
		"events were lost":           {[]step{interpreter(at - 1), lost}, true},
		"lost before an exec":        {[]step{interpreter(at - 1), lost, exec, code(at + 1)}, false},
		"lost after an exec":         {[]step{interpreter(at - 1), exec, lost, code(at + 1)}, false},
		"lost after a fork":          {[]step{interpreter(at + 1), fork, lost}, true},
		"of an earlier process":      {[]step{interpreter(at - 1), fork}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFramer(&memories{}, decode.Clock{})
			defer f.Close()
			known := false // objects are read where the interpreter is known
			f.codes = codes(func() { known = true })
			for _, step := range tt.steps {
				step(f)
			}
			known = false
			if stack(f); known != tt.known {
				t.Errorf("known is %v, want %v", known, tt.known)
			}
		})
	}
}

// After events were lost, the data of processes that have ended is dropped, and that of others kept.
func TestFramerAfterLoss(t *testing.T) {
	own := uint32(os.Getpid())
	const ended = 1 << 30
	f := newFramer(&memories{}, decode.Clock{})
	defer f.Close()
	is := &python.Process{Facts: python.Facts{Epoch: 1, Layout: python.Layout{CoBytes: 8}}}
	for _, pid := range []uint32{own, ended} {
		f.setInterpreter(pid, is, 1000)
	}
	f.Life(tick.ProcEvent{})
	if got := len(f.codes.Processes()); got != 2 {
		t.Errorf("%d interpreters are known soon after the loss, want 2", got)
	}
	f.trim(f.clock.Now() + 2*lateStacks.Nanoseconds())
	if got := f.codes.Processes(); len(got) != 1 || got[0] != own {
		t.Errorf("the interpreters of %d are known later, want %d", got, own)
	}
}

// codes returns a Codes that calls opened when it opens the memory of a process.
func codes(opened func()) *python.Codes {
	return python.NewCodes(1<<20, func(uint32) (python.Reader, func(), error) {
		opened()
		return nil, nil, proc.ErrExited
	})
}
