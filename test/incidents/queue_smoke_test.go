//go:build smoke

package incidents

import (
	"sync"
	"testing"
)

// The next run depends on the active and the announced runs.
func TestQueue(t *testing.T) {
	for _, tt := range []struct {
		name    string
		running []need
		coming  []need
		next    []need // runs that may begin now
	}{
		{name: "nothing runs", coming: []need{calm, full, alone}, next: []need{calm, full}},
		{name: "beside a full one", running: []need{full}, coming: []need{calm, full, alone}, next: []need{calm}},
		{name: "beside a calm one", running: []need{calm}, coming: []need{calm, full, alone}, next: []need{full}},
		{name: "only calm ones are left", running: []need{calm}, coming: []need{calm, calm, alone}, next: []need{calm}},
		{name: "only full ones are left", running: []need{full}, coming: []need{full, alone}},
		{name: "the others have begun", running: []need{full}, coming: []need{alone}},
		{name: "the others have ended", coming: []need{alone}, next: []need{alone}},
		{name: "one has both CPUs", running: []need{alone}, coming: []need{alone, calm}},
		{name: "both CPUs are taken", running: []need{full, calm}, coming: []need{calm, full, alone}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q := newQueue()
			for _, n := range tt.coming {
				q.expect(n)
			}
			for _, n := range tt.running {
				q.running = append(q.running, &place{need: n})
			}
			may := map[need]bool{}
			for _, n := range tt.next {
				may[n] = true
			}
			for _, n := range tt.coming {
				if q.may(n) != may[n] {
					t.Errorf("kind %d may begin: %v", n, !may[n])
				}
			}
		})
	}
}

// Every run gets its turn, on a CPU that no other run has.
func TestQueueTurns(t *testing.T) {
	q := newQueue()
	all := []need{alone, full, calm, full, alone, calm, full, full}
	for _, n := range all {
		q.expect(n)
	}
	var taken [2]sync.Mutex
	var done sync.WaitGroup
	t.Run("runs", func(t *testing.T) {
		for _, n := range all {
			done.Go(func() {
				t.Run("one", func(t *testing.T) {
					p := q.take(t, n)
					cpus := taken[p.cpu : p.cpu+1]
					if p.need == alone {
						cpus = taken[:]
					}
					for i := range cpus {
						if !cpus[i].TryLock() {
							t.Errorf("CPU %d is another's", i)
							continue
						}
						defer cpus[i].Unlock()
					}
				})
			})
		}
		done.Wait()
	})
	if len(q.running) > 0 || q.coming != [kinds]int{} {
		t.Errorf("left: %v, %v", q.running, q.coming)
	}
}
