package ledger

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// The account of a process without live threads is not rebuilt each second, and equals a rebuilt
// one, even when a thread of the process appears again.
func TestAccountOfTheEnded(t *testing.T) {
	kept, made := 0, 0
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 11))
		all := random(r, 40, 4000)
		for i := range all.Calls {
			all.Calls[i].PID = 7 + all.Calls[i].TID%9
		}
		for i := range all.Waits {
			all.Waits[i].PID = 7 + all.Waits[i].TID%9
		}
		l, now := New(0), tick.Times{}
		for second := range 20 {
			var b tick.Batch
			b.Calls, all.Calls = all.Calls[:200], all.Calls[200:]
			b.Calls = ofSome(b.Calls, r.Uint32N(9))
			waits := min(len(all.Waits), 300)
			b.Waits, all.Waits = all.Waits[:waits], all.Waits[waits:]
			l.Batch(b.Waits, b.Calls)
			x := tick.Tick{Time: time.Unix(0, base+int64(second)*1e9)}
			for tid := range uint32(40) {
				now.OnCPU += r.Uint64N(1e6)
				if r.IntN(3) == 0 {
					x.Threads = append(x.Threads, tick.Thread{PID: 7 + (100+tid)%9, TID: 100 + tid, InCalls: now, Ended: r.IntN(2) == 0})
				}
			}
			check := func(x *tick.Tick) {
				before := map[*tick.Breakdown]bool{}
				for _, p := range l.procs {
					before[p.over] = p.over != nil
				}
				l.Tick(x.Threads, x.Processes)
				for _, p := range l.procs {
					if p.over == nil {
						continue
					}
					if before[p.over] {
						kept++
					} else {
						made++
					}
					if want := p.breakdown(); !reflect.DeepEqual(p.over, want) {
						t.Fatalf("seed %d, second %d, process %d:\n got %+v\nwant %+v", seed, second, p.pid, p.over, want)
					}
				}
			}
			check(&x)
			for range r.IntN(2) * (idleTicks + 3) { // all threads go, but not processes that are alive
				check(&tick.Tick{Time: x.Time, Processes: []tick.Process{{PID: 7}, {PID: 8}, {PID: 9}, {PID: 10}}})
			}
		}
	}
	if kept < 100 || made < 100 {
		t.Errorf("%d accounts were kept, %d made: this shows nothing", kept, made)
	}
}

// ofSome returns the calls of all processes but one.
func ofSome(calls []events.Call, but uint32) (out []events.Call) {
	for i := range calls {
		if calls[i].PID != 7+but {
			out = append(out, calls[i])
		}
	}
	return out
}
