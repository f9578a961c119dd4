package session

import (
	"log/slog"
	"testing"
	"time"

	"ingero/internal/decode"
	"ingero/internal/proc"
	"ingero/internal/redact"
	"ingero/internal/testkit"
)

// Processes that block their readers block no other code, and unread ones are counted.
func TestProgramsDoNotWait(t *testing.T) {
	t.Parallel()
	free := make(chan struct{})
	reading := make(chan uint32, maxQuestions)
	p := newPrograms(func(pid uint32, _ []string) (*proc.Program, error) {
		reading <- pid
		<-free
		return &proc.Program{StartTicks: 1, Args: []string{"x"}}, nil
	}, redact.Safe)
	for pid := range uint32(readers) {
		p.request(pid, 1)
		<-reading
	}
	const more = 10
	for pid := range uint32(maxQuestions + more) {
		p.request(1000+pid, 1)
	}
	if got, left := p.take(); len(got) != 0 || left != more+readers {
		t.Errorf("%d answers and %d left out, want 0 and %d", len(got), left, more+readers)
	}
	if vars := p.vars(7, 1); vars != nil {
		t.Errorf("there are variables %v", vars)
	}
	p.stop() // does not wait forever
	if _, left := p.take(); left != more+1+readers+maxQuestions {
		t.Errorf("%d are left out at the end, want all %d", left, more+1+readers+maxQuestions)
	}
	p.request(1, 1)
	close(free)
	p.work.Wait()
	got, left := p.take()
	if all := readers + maxQuestions + more; len(got)+int(left) != all || len(got) > maxQuestions { // the answer for vars is its own
		t.Errorf("%d answers and %d left out, want %d in all", len(got), left, all)
	}
}

// Processes whose reads hang do not keep others from being read, until too many hang at once. Then
// requests are refused at once, and not for longer than the reads hang.
func TestProgramsThatHang(t *testing.T) {
	testkit.LeakCheck(t)
	const hostile = 1000 // and above
	free := make(chan struct{})
	reading := make(chan uint32, maxQuestions)
	p := newPrograms(func(pid uint32, _ []string) (*proc.Program, error) {
		if pid >= hostile {
			reading <- pid
			<-free
		}
		return &proc.Program{StartTicks: 1, Args: []string{"x"}, Vars: map[string]string{"RANK": "1"}}, nil
	}, redact.Safe)
	wait := func() {
		for range hangs {
			p.take()
		}
	}
	for pid := uint32(hostile); pid < hostile+maxHanging; pid += readers {
		for i := range uint32(readers) {
			p.request(pid+i, 1)
			<-reading
		}
		wait()
		if vars := p.vars(7, 1); vars["RANK"] != "1" {
			t.Errorf("%d reads hang, and another process has variables %v", pid+readers-hostile, vars)
		}
	}
	for i := range uint32(readers) {
		p.request(hostile+maxHanging+i, 1)
		<-reading
	}
	wait()
	_, before := p.take()
	if p.request(7, 1) {
		t.Errorf("%d reads hang, and one more is tried", maxHanging+readers)
	}
	if _, left := p.take(); left != before+1 {
		t.Errorf("%d refusals, want 1", left-before)
	}
	close(free)
	testkit.Eventually(t, "room for a read", func() bool { return p.vars(7, 1)["RANK"] == "1" })
	p.stop()
}

// A process whose request was refused has its command line later.
func TestProgramsAreRequestedAgain(t *testing.T) {
	testkit.LeakCheck(t)
	free := make(chan struct{})
	report := &reporter{log: slog.New(slog.DiscardHandler), notify: func(Notice) {}}
	of := newTargets(decode.Clock{}, report, &LiveOptions{})
	reading := make(chan uint32, 2*maxQuestions)
	of.programs = newPrograms(func(pid uint32, _ []string) (*proc.Program, error) {
		reading <- pid
		<-free
		return &proc.Program{StartTicks: 1, Args: []string{"x"}}, nil
	}, redact.Safe)
	for pid := range uint32(readers) {
		of.programs.request(1000+pid, 1)
		<-reading
	}
	for pid := range uint32(maxQuestions - readers) {
		of.programs.request(2000+pid, 1)
	}
	const pid = 7
	of.admit(&proc.Process{PID: pid, StartTicks: 1}, false, time.Unix(1000, 0))
	of.requestProgram(pid)
	of.locate()
	if _, left, _ := of.locate(); left != 2 {
		t.Errorf("%d refusals, want one at once and one at the next tick", left)
	}
	close(free)
	testkit.Eventually(t, "its command line", func() bool {
		of.locate()
		return of.list()[0].Cmdline == "x"
	})
	of.close()
}

// An answer belongs to the requested process and its last program.
func TestProgramsAnswers(t *testing.T) {
	testkit.LeakCheck(t)
	hold := make(chan struct{})
	p := newPrograms(func(pid uint32, _ []string) (*proc.Program, error) {
		switch pid {
		case 1:
			return nil, proc.ErrExited
		case 2:
			return &proc.Program{StartTicks: 8, Args: []string{"of another"}}, nil
		case 3:
			return &proc.Program{StartTicks: 7, Args: []string{"env", "is", "closed"}}, proc.ErrExited
		case 4:
			<-hold
			return &proc.Program{StartTicks: 7, Args: []string{"first"}}, nil
		}
		return &proc.Program{StartTicks: 7, Args: []string{"x", "--token", "y"}, Vars: map[string]string{"RANK": "1"}}, nil
	}, redact.Safe)
	for pid := range uint32(6) {
		p.request(pid, 7)
	}
	if vars := p.vars(6, 7); vars["RANK"] != "1" {
		t.Errorf("variables %v", vars)
	}
	p.mu.Lock() // as if the process had been requested again, and answered
	p.answers[4] = answer{question: question{pid: 4, start: 7, seq: 100}, cmdline: "second"}
	p.mu.Unlock()
	close(hold)
	p.stop()
	got, left := p.take()
	want := map[uint32]string{0: "x --token ***", 3: "env is closed", 4: "second", 5: "x --token ***"}
	for pid, line := range want {
		if got[pid].cmdline != line {
			t.Errorf("%d: %q, want %q", pid, got[pid].cmdline, line)
		}
	}
	if len(got) != len(want) || left != 0 {
		t.Errorf("%d answers, %d left out", len(got), left)
	}
}
