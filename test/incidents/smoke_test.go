//go:build smoke

package incidents

import (
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
)

// smoke lists scenarios with strong faults, of each large family.
var smoke = []string{
	"cpu/four hogs", "cpu/a CPU quota", "cuda/an allocation storm", "cuda/copies take 40 % of the time",
	"stop/stopped by a signal, again and again", "stop/a debugger looks at it", "threads/a lock that another thread holds",
	"net/idle while a tool is called", "gpu/longer kernels", "graph/launches are slow, the pool is full",
	"disk/the loop reads past the cache", "nccl/a rank that sleeps",
}

// leastNamed is the number of scenarios whose cause must be named in some tick.
//
// On two CPUs with 25 to 35 other runnable threads (compilers, tests of other programs, stress-ng
// --cpu 2), the causes of all scenarios of the lab were named in more than 0.96 of the runs, and
// those of these twelve in 35 of 36. At 0.8, fewer than 4 of 12 would be named with a probability
// of sum(i=0..3) C(12,i) 0.8^i 0.2^(12-i) = 6.2e-5. If kernel and engine do not match, none is
// named.
const leastNamed = 4

// On a live kernel most causes are named: BPF programs, records, steps and rules work together.
// Other tests measure the accuracy.
func TestSmoke(t *testing.T) {
	l := newLab(t, byDefault(t))
	var named, run atomic.Int32
	t.Run("scenarios", func(t *testing.T) {
		for _, f := range families {
			for _, r := range f.rows {
				name := f.name + "/" + r.name
				if !slices.Contains(smoke, name) {
					continue
				}
				t.Run(name, func(t *testing.T) {
					at := r.needs(newSeed(1, name), f.full)
					l.expect(at)
					t.Parallel()
					place := l.take(t, at)
					o := l.perform(t, name, 1, r.plan(newSeed(1, name)), filepath.Join(t.TempDir(), "run.db"), place)
					run.Add(1)
					if isNamed(o) {
						named.Add(1)
						return
					}
					t.Log("the cause was not named")
				})
			}
		}
	})
	t.Logf("the cause was named in %d of %d", named.Load(), len(smoke))
	if !t.Skipped() && int(run.Load()) != len(smoke) {
		t.Errorf("%d scenarios of %d were run", run.Load(), len(smoke))
	}
	if named.Load() < leastNamed {
		t.Errorf("the cause was named in %d of %d, want at least %d", named.Load(), len(smoke), leastNamed)
	}
}

// isNamed reports whether a tick had a chain of the cause.
func isNamed(o *outcome) bool {
	for _, h := range o.Heard {
		for i := range h.Chains {
			if slices.Contains(o.Want[0].Rules, h.Chains[i].Rule) {
				return true
			}
		}
	}
	return false
}
