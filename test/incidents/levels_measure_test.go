//go:build measure

package incidents

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"ingero/internal/govern"
	"ingero/test/scores"
)

// subset has one scenario of each family of faults but serving, whose runs are long, and five healthy
// jobs.
var subset = []string{
	"healthy/training, synchronise spins", "healthy/training, synchronise blocks", "healthy/short steps",
	"healthy/work on the CPU in every step", "healthy/checkpoints, many",
	"cpu/four hogs", "cuda/an allocation storm", "graph/launches are slow, the pool is full", "disk/the loop reads past the cache",
	"memory/a worker is killed for want of memory", "stop/stopped by a signal, again and again", "threads/a lock that another thread holds",
	"net/idle while a tool is called", "gpu/longer kernels", "nccl/a rank that sleeps", "xid/a fault ends a process",
}

// level is one way to trace the lab's subset.
type level struct {
	name   string
	rate   int      // launches per second while the GPU works; 0: the scenario's own
	bound  bool     // with the default overhead limit
	forced []string // names of the govern.Steps that are always taken
	calm   bool     // only the healthy jobs
}

// levels returns: no limit, the default limit at three rates and for healthy jobs at three more,
// each step of govern.Steps alone, and all of them.
func levels() []level {
	list := []level{{name: "no-bound"}}
	for _, rate := range []int{1000, 5000, 20_000} {
		list = append(list, level{name: fmt.Sprintf("default-%d-per-s", rate), rate: rate, bound: true})
	}
	for _, rate := range []int{2000, 10_000, 30_000} {
		list = append(list, level{name: fmt.Sprintf("healthy-%d-per-s", rate), rate: rate, bound: true, calm: true})
	}
	all := level{name: "all-steps", bound: true}
	for _, s := range govern.Steps {
		list = append(list, level{name: s.Name, bound: true, forced: []string{s.Name}})
		all.forced = append(all.forced, s.Name)
	}
	return append(list, all)
}

// The lab's subset is judged at each level, to measure accuracy while data is shed.
func TestLevels(t *testing.T) {
	var text strings.Builder
	text.WriteString("| level | runs | cause found | culprit right | lost time | within interval | false chains | named after | diagnose |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, lv := range levels() {
		var sum results
		t.Run(lv.name, func(t *testing.T) { lv.run(t, &sum) })
		if len(sum.all) == 0 { // go test -run or -only excludes the level
			continue
		}
		var s tally
		for _, x := range sum.all {
			if x.undisturbed() {
				s.add(x)
			}
		}
		s.measured(t, lv.name)
		text.WriteString(rowOf(lv.name, &s))
	}
	t.Log("\n" + text.String())
	if *tableOut != "" {
		if err := os.WriteFile(*tableOut, []byte(text.String()), 0o644); err != nil {
			t.Error(err)
		}
	}
}

// run runs the subset at a level, each scenario alone, since the victim's overhead decides what is
// shed.
func (lv level) run(t *testing.T, sum *results) {
	l := newLab(t, 0)
	if lv.bound {
		l.overhead = byDefault(t)
	}
	for _, name := range lv.forced {
		l.forced = append(l.forced, govern.StepNamed(name))
	}
	for _, f := range families {
		for _, r := range f.rows {
			name := f.name + "/" + r.name
			if !slices.Contains(subset, name) || !wanted(name) || lv.calm && f.name != "healthy" {
				continue
			}
			for _, n := range seedList(t) {
				t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) {
					l.expect(alone)
					all := l.judged(t, name, n, lv.at(r), alone)
					sum.add(t, counted(all), n, scores.Now())
					check(t, all[len(all)-1])
				})
			}
		}
	}
}

// at returns the scenario with the level's launches per second.
func (lv level) at(r row) row {
	if lv.rate == 0 {
		return r
	}
	faster := r
	faster.plan = func(s *seed) plan {
		p := r.plan(s)
		p.victim.main = atRate(p.victim.main, lv.rate)
		return p
	}
	return faster
}
