//go:build measure

package soak

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ingero/internal/query"
	"ingero/internal/testkit"
	"ingero/pkg/events"
	"ingero/sim"
)

// reported checks that each life is a recording, and that the time between two of them is reported as
// not recorded.
func (s *soak) reported(sessions []query.Session) {
	s.t.Helper()
	s.t.Logf("from the agent's start to its first tick with calls: %s; the second life is beside 10,000 processes", s.starts)
	var seconds []float64
	for _, d := range s.starts {
		seconds = append(seconds, d.Seconds())
	}
	testkit.MeasuredAll(s.t, "start", seconds, "s", testkit.Lower)
	testkit.Measured(s.t, "kills", float64(s.lives), "count", testkit.Higher)
	if len(sessions) != s.lives+1 {
		s.t.Fatalf("%d recordings of %d lives", len(sessions), s.lives+1)
	}
	for i := range sessions {
		want := "interrupted"
		if i == s.lives {
			want = "ended"
		}
		if sessions[i].State != want {
			s.t.Errorf("recording %d is %s, want %s: %s", i, sessions[i].State, want, sessions[i].Problem)
		}
	}
	self, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command(self, "explain", "--since", "1d", "--db", s.db)
	cmd.Env = append(os.Environ(), asIngero+"="+s.lock, "TZ=UTC")
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("explain: %v\n%s", err, out)
	}
	text := strings.Join(strings.Fields(string(out)), " ")
	for _, want := range []string{fmt.Sprintf("in %d gaps between traces", s.lives), fmt.Sprintf("%d traces were killed", s.lives)} {
		if !strings.Contains(text, want) {
			s.t.Errorf("explain does not say %q:\n%s", want, out)
		}
	}
}

// soon is the time within which a trace sees and writes an event. It is longer if other tests run.
func soon() time.Duration {
	if *length > 0 {
		return time.Second
	}
	return 3 * time.Second
}

// unbroken checks the last killed life that saw calls from its start. It must have every call of
// the paced process, from soon after the start to shortly before the kill. Each call copies a byte
// more than the previous one; more than 1,023 missing calls are a gap in time.
func (s *soak) unbroken(began, killed time.Time) {
	s.t.Helper()
	r, err := query.Open(s.t.Context(), s.db)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	copies, _ := events.OpByName("cudaMemcpyAsync")
	var last, first events.Call
	n := 0
	_, err = r.Each(s.t.Context(), query.Filter{PIDs: []uint32{uint32(s.paced)}, Ops: []events.Op{copies}},
		func(_ *query.Session, c *events.Call, _ uint64) bool {
			if n++; n == 1 {
				first = *c
			} else if c.Weight != 1 || c.Args[0] != last.Args[0]+1 && c.Args[0]+1023 != last.Args[0] {
				s.t.Errorf("life %d, call %d: %d bytes (for %d calls) after %d", s.lives, n, c.Args[0], c.Weight, last.Args[0])
			} else if gap := time.Duration(c.Start - last.Start); gap > 1000/pace*time.Second {
				s.t.Errorf("life %d, call %d: nothing for %s", s.lives, n, gap)
			}
			last = *c
			return true
		})
	if err != nil {
		s.t.Fatal(err)
	}
	took := time.Duration(last.Start - first.Start)
	if want := int(took.Seconds()*pace) / 2; n < want || n < 100 {
		s.t.Errorf("life %d has %d calls of %s", s.lives, n, took)
	}
	if late := time.Unix(0, first.Start).Sub(began); late > soon() {
		s.t.Errorf("life %d lacks its first %s", s.lives, late)
	}
	tail := killed.Sub(time.Unix(0, last.Start))
	if s.tails = append(s.tails, tail); tail > soon() {
		s.t.Errorf("life %d lacks its last %s", s.lives, tail)
	}
}

// exact checks that each program that ran wholly in the long life has all its calls there, by
// process and function, and that no other process has any. PIDs are reused. Of the programs with
// one PID, the last ones are there: those that followed before the first was forgotten, which takes
// 512 other processes. Programs that ended before the oldest kept row are missing, and so are those
// before a silent process with the same PID. Programs that end while the disk is full, or that
// began before the long life, may be there in part.
func (s *soak) exact(r *query.Reader, session *query.Session) {
	s.t.Helper()
	sum, err := r.Summary(s.t.Context(), query.Filter{Session: session.ID})
	if err != nil {
		s.t.Fatal(err)
	}
	got := map[uint32]counts{}
	for i := range sum.Ops {
		o := &sum.Ops[i]
		if got[o.PID] == nil {
			got[o.PID] = counts{}
		}
		got[o.PID][o.Op] = o.Sum.Calls
	}
	programs, others := s.programs("long"), s.programs("killed", "full", "after")
	for pid, all := range others {
		others[pid] = slices.DeleteFunc(all, func(p program) bool { return p.ended < s.longBegan })
	}
	dropSilent(programs)
	s.nobodyElse(got, programs, others)
	s.trained(got[uint32(s.trainer)])
	kept, began := s.keptFrom(r, session), map[uint32]float64{} // began: start of the last process with the PID
	for i := range sum.Processes {
		p := &sum.Processes[i]
		began[p.PID] = time.Duration(p.Started.UnixNano() - session.MonoOffset).Seconds()
	}
	wrong, whole, part, gone := 0, 0, 0, 0
	for pid, all := range programs {
		n := lasting(all, got[pid], others[pid])
		switch last := all[len(all)-1].ended; {
		case n < 0:
			if wrong++; wrong <= 20 {
				s.t.Errorf("process %d: %v, want %v", pid, got[pid], total(all))
			}
		case n == len(all):
			whole++
		case n == 0:
			if gone++; last > kept+10 && last > began[pid] {
				s.t.Errorf("process %d is not there, which ended at %.2f s: others are kept from %.2f s on", pid, last, kept)
			}
		default:
			part++
			// The calls may include those of another phase's program, which did the same later.
			before, next := all[len(all)-n-1].ended, all[len(all)-n].ended
			if next-before < 10 && !slices.ContainsFunc(others[pid], func(p program) bool { return p.ended > before }) {
				s.t.Errorf("process %d: what ended at %.2f s is not there, and another ended at %.2f s", pid, before, next)
			}
		}
	}
	reused, _ := os.ReadFile(filepath.Join(s.dir, "reused"))
	s.t.Logf("of %d numbers of programs %d have all counts, %d those of the last with the number, %d had to go; %d are not right; %d were used again at once",
		len(programs), whole, part, gone, wrong, bytes.Count(reused, []byte("\n")))
	testkit.MeasuredShare(s.t, "wrong-counts", wrong, whole+part+wrong, testkit.Lower)
	if whole+part < 20 || len(reused) == 0 {
		s.t.Errorf("%d programs are there, and no number was used again in %q", whole+part, reused)
	}
}

// dropSilent drops the programs without calls, which a trace cannot see.
func dropSilent(programs map[uint32][]program) {
	for pid, all := range programs {
		if programs[pid] = slices.DeleteFunc(all, program.silent); len(programs[pid]) == 0 {
			delete(programs, pid)
		}
	}
}

// nobodyElse checks that all calls are of processes that report calls.
func (s *soak) nobodyElse(got map[uint32]counts, programs, others map[uint32][]program) {
	s.t.Helper()
	wrong := 0
	for pid, ops := range got {
		if len(programs[pid])+len(others[pid]) > 0 || slices.Contains([]int{s.trainer, s.paced, s.python}, int(pid)) {
			continue
		}
		if wrong++; wrong <= 20 {
			s.t.Errorf("process %d is there with %v, and has said nothing", pid, ops)
		}
	}
}

// trained checks that the trainer, which also runs before and after the long life, has a wait for
// each step of it, by the trainer's own count.
func (s *soak) trained(got counts) {
	s.t.Helper()
	synchronize, _ := events.OpByName("cudaStreamSynchronize")
	least, most := s.longSteps[2]-s.longSteps[1], s.longSteps[3]-s.longSteps[0]
	s.t.Logf("the trainer's steps in the long life: %d, by its own count %d to %d", got[synchronize], least, most)
	if n := got[synchronize]; n < least || n > most {
		s.t.Errorf("the trainer has %d steps, want %d to %d: %v", n, least, most, got)
	}
}

// keptFrom returns the time from which a recording keeps processes, in seconds since boot, or minus
// infinity if nothing has been forgotten.
func (s *soak) keptFrom(r *query.Reader, session *query.Session) float64 {
	s.t.Helper()
	res, err := r.SQL(s.t.Context(), "SELECT kept_ns FROM tiers JOIN sessions ON id = session WHERE seconds = 3600 AND uid = '"+session.ID+"'", query.SQLLimits{})
	if err != nil {
		s.t.Fatal(err)
	}
	kept := res.Rows[0][0].(int64)
	if kept == math.MinInt64 {
		return math.Inf(-1)
	}
	return time.Duration(kept - session.MonoOffset).Seconds()
}

// unharmed checks that all programs ended as they should, and that the long-lived ones do.
func (s *soak) unharmed() {
	s.t.Helper()
	if failures, err := os.ReadFile(filepath.Join(s.dir, "failures")); err == nil {
		s.t.Errorf("programs failed:\n%s", failures)
	}
	for name, pid := range map[string]int{"train": s.trainer, "calls": s.paced, "train.py": s.python} {
		if !alive(pid) {
			s.t.Errorf("%s (%d) is gone", name, pid)
		}
	}
}

// flat checks that the agent uses no more resources at the end of its long life than shortly
// before, except for fluctuations. In the first half it fills its table of ended processes.
func (s *soak) flat() {
	s.t.Helper()
	half := s.sizes[len(s.sizes)/2:]
	first, last := half[:len(half)/2], half[len(half)/2:]
	for _, row := range []struct {
		what, unit string
		of         func(size) int
		most       func(before int) int
	}{
		{"memory", "KiB", func(z size) int { return z.memory }, func(n int) int {
			if *length > 0 {
				return n + 32<<10
			}
			return n + n/4 + 16<<10
		}},
		{"file descriptors", "count", func(z size) int { return z.fds }, func(n int) int { return n + 8 }},
		{"BPF maps", "count", func(z size) int { return z.maps }, func(n int) int { return n + 2 }},
		{"mappings", "count", func(z size) int { return z.mappings }, func(n int) int { return n + 32 }},
		{"threads", "count", func(z size) int { return z.threads }, func(n int) int { return n + 8 }},
		{"goroutines", "count", func(z size) int { return z.gorou }, func(n int) int { return n + 8 }},
	} {
		var all []int
		for _, z := range s.sizes {
			all = append(all, row.of(z))
		}
		before, after := middle(first, row.of), middle(last, row.of)
		s.t.Logf("%-16s %d %s, then %d (%d to %d)", row.what, before, row.unit, after, slices.Min(all), slices.Max(all))
		testkit.Measured(s.t, "growth/"+strings.ReplaceAll(row.what, " ", "-"), float64(after-before), row.unit, testkit.Lower)
		if after > row.most(before) {
			s.t.Errorf("%s grew from %d to %d: %v", row.what, before, after, all)
		}
	}
}

func middle(sizes []size, of func(size) int) int {
	var all []int
	for _, z := range sizes {
		all = append(all, of(z))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// window has the trainer's figures over a time.
type window struct {
	rate     float64 // steps per second
	p50, p99 time.Duration
}

// window returns the figures from a time on. A long window has only the latest steps.
func (s *soak) window(from time.Duration) window {
	s.t.Helper()
	to := sim.Now()
	from = max(from, to-30*time.Second)
	all := s.steps.Between(nil, from, to)
	if len(all) < 10 {
		s.t.Fatalf("the trainer made %d steps in %s", len(all), to-from)
	}
	var took []time.Duration
	for _, x := range all {
		took = append(took, x.End-x.Begin)
	}
	slices.Sort(took)
	return window{float64(len(all)) / (to - from).Seconds(), took[len(took)/2], took[len(took)*99/100]}
}

// unslowed checks that the trainer's median rate in the lives with an overhead limit is about that
// in the pause after each, with the same storms around it, and at the end as high as before. Beside
// other tests the rates vary, so then it only checks that the trainer does not stop. It logs the
// cost without a limit, on CPUs that are never idle.
func (s *soak) unslowed() {
	s.t.Helper()
	before, pauses, after := s.alone[0], s.alone[1:len(s.alone)-1], s.alone[len(s.alone)-1]
	s.t.Logf("the trainer's steps/s (median step, p99): %s before the storms, %s in pauses, %s traced, %s in the long life, %s beside the same without it, %s after the storms",
		before, average(pauses), average(s.traced), s.longWindow, s.besides, after)
	for first, name := range []string{"with the bound", "without a bound"} {
		var ratios []float64
		for i := first; i < len(s.traced); i += 2 {
			ratios = append(ratios, s.traced[i].rate/pauses[i].rate)
		}
		slices.Sort(ratios)
		ratio := ratios[len(ratios)/2]
		testkit.MeasuredAll(s.t, "rate/"+strings.ReplaceAll(name, " ", "-"), ratios, "ratio", testkit.Higher)
		s.t.Logf("a life %s to the pause after it: %.3f (%.3f to %.3f, %d pairs)", name, ratio, ratios[0], ratios[len(ratios)-1], len(ratios))
		least := 0.3
		if *length > 0 && first == 0 {
			least = 0.9
		}
		if ratio < least {
			s.t.Errorf("traced %s it has %.3f of the rate of the pauses, want %.1f", name, ratio, least)
		}
	}
	if least := 0.9; *length > 0 && after.rate < before.rate*least {
		s.t.Errorf("after the storms it has %.3f of the rate before them, want %.1f", after.rate/before.rate, least)
	}
}

// average returns the median of each figure.
func average(all []window) (w window) {
	if len(all) == 0 {
		return w
	}
	by := func(of func(window) float64) float64 {
		var x []float64
		for _, w := range all {
			x = append(x, of(w))
		}
		slices.Sort(x)
		return x[len(x)/2]
	}
	return window{by(func(w window) float64 { return w.rate }),
		time.Duration(by(func(w window) float64 { return float64(w.p50) })), time.Duration(by(func(w window) float64 { return float64(w.p99) }))}
}

func (w window) String() string { return fmt.Sprintf("%.0f (%s, %s)", w.rate, w.p50, w.p99) }
