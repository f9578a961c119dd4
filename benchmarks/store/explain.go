package main

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"ingero/benchmarks/figure"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// explainRate is the number of calls per second in the explained recording.
const explainRate = 20_000

// explain times `ingero explain` on a recording of an hour by default, from the start of the
// program to its end.
func explain(dir string, o *options) error {
	hours := o.hours
	if hours == 0 {
		hours = 1
	}
	s, err := newStream(explainRate, time.Second, 1)
	if err != nil {
		return err
	}
	s.reported = true
	path := filepath.Join(dir, "x.db")
	started := time.Now()
	db, err := s.open(path, 0)
	if err != nil {
		return err
	}
	for s.now.Sub(began) < time.Duration(hours*float64(time.Hour)) {
		if err := s.feed(db, 8, nil); err != nil {
			return errors.Join(err, db.Close())
		}
	}
	if err := db.Close(); err != nil {
		return err
	}
	fmt.Printf("explain: %d calls over %s, made in %s\n", s.fed(), s.now.Sub(began), time.Since(started).Round(time.Second))
	ingero := filepath.Join(dir, "ingero")
	if out, err := exec.Command("go", "build", "-o", ingero, "./cmd/ingero").CombinedOutput(); err != nil {
		return fmt.Errorf("build ingero: %w: %s", err, out)
	}
	at := func(before time.Duration) string { return s.now.Add(-before).Format(time.RFC3339) }
	all := s.now.Sub(began)
	for _, q := range []struct {
		name string
		args []string
	}{
		{"all of it", []string{"--from", at(all), "--to", at(0)}},
		{"all but the first minute", []string{"--from", at(all - time.Minute - 7*time.Second), "--to", at(0)}},
		{"all of it, --per-process", []string{"--from", at(all), "--to", at(0), "--per-process"}},
		{"the last 5 minutes", nil},
		{"the last 20 seconds, analysed anew", []string{"--from", at(20 * time.Second), "--to", at(0)}},
	} {
		var used figure.Spread
		if err := timed("explain: "+q.name, func() error {
			cmd := exec.Command(ingero, append([]string{"explain", "--db", path}, q.args...)...)
			out, err := cmd.Output()
			used = append(used, float64((cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()).Microseconds())/1000)
			if err == nil && !strings.Contains(string(out), "INCIDENT REPORT - 1 causal chain") && !strings.Contains(q.name, "anew") {
				err = fmt.Errorf("it does not find the chain: %s", out)
			}
			return err
		}); err != nil {
			return err
		}
		fmt.Printf("  %-40s %s ms\n", "    CPU time of it", used.Text("%.0f"))
		figure.Report("explain/"+q.name+"/cpu", used, "ms")
	}
	return nil
}

// tell adds to a tick what a session computes from the calls: the time of each process, with names,
// and a chain that never ends.
func (s *stream) tell(t *tick.Tick) {
	each := uint64(s.each)
	for i := range int64(50) {
		s.lengths.Add(20e6+(i*i*7919+int64(s.seq))%12e6, 1)
	}
	for i := range uint32(4) {
		pid := 4000 + i
		t.Processes = append(t.Processes, tick.Process{PID: pid, Comm: "python3", Started: began, Attached: began})
		b := tick.Breakdown{PID: pid, Threads: 2, Steps: int(s.seq) * 50, Lengths: s.lengths.Clone()}
		b.Loop = &tick.Loop{TID: pid, Waits: 1, Steps: s.seq * 50, Total: time.Duration(each * s.seq), Lengths: b.Lengths,
			Recent: []tick.LoopStep{{From: s.now.Add(-40 * time.Millisecond), To: s.now, Times: tick.StepTimes{GPUWait: 40 * time.Millisecond}}}}
		for j := range uint32(2) {
			x := tick.ThreadTime{TID: pid + 100*j, Comm: "python3"}
			x.In[tick.InGPUWaits] = tick.Spent{Times: tick.Times{OnCPU: each * 8 / 10, Runnable: each / 20}, RunnableBy: s.names(6, each/200)}
			x.In[tick.InCalls] = tick.Spent{Times: tick.Times{OnCPU: each / 20}}
			x.In[tick.BetweenCalls] = tick.Spent{Times: tick.Times{OnCPU: each / 20, Blocked: each / 20}, BlockedOn: s.names(6, each/200)}
			for p := range x.In {
				y := &x.In[p]
				y.OnCPU, y.Runnable, y.Blocked = y.OnCPU*s.seq, y.Runnable*s.seq, y.Blocked*s.seq
			}
			b.ByThread = append(b.ByThread, x)
		}
		all := 2 * each * s.seq
		b.Elapsed, b.GPUWait, b.CallCPU, b.GapCPU, b.Runnable, b.Blocked = all, all*8/10, all/20, all/20, all/20, all/20
		b.RunnableBy, b.BlockedOn = s.names(12, each/100), s.names(12, each/100)
		t.Breakdowns = append(t.Breakdowns, b)
	}
	t.Chains = []tick.Chain{{ID: "c-1", Rule: "cpu-taken", Severity: tick.High, PID: 4000, TID: 4000, From: s.now.Add(-min(time.Minute, s.now.Sub(began))), To: s.now,
		Lost: 2 * time.Second, LostMin: time.Second, LostMax: 3 * time.Second, Window: time.Minute, Excess: 2 * time.Second, Steps: 3000, Slow: 400, Confidence: 1,
		Culprits: []tick.Culprit{{Thread: events.Thread{PID: 9000, TID: 9000, Name: events.NameOf("hog")}, Lost: 2 * time.Second}}}}
}

// names returns n shares that grow with each tick.
func (s *stream) names(n int, each uint64) (out []tick.Share) {
	for i := range n {
		out = append(out, tick.Share{NS: each / uint64(i+1) * s.seq, Count: s.seq, Who: events.Thread{PID: 9000 + uint32(i), TID: 9000 + uint32(i), Name: events.NameOf(fmt.Sprintf("other-%d", i))}})
	}
	return out
}
