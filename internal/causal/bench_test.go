package causal

import (
	"runtime"
	"testing"
	"time"

	"ingero/internal/ledger"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// aSecond is one of 200,000 records: calls of threads in steps of 18 launches, a copy and a
// synchronize, and a wait in each step; in every other step a neighbor had the CPU.
func aSecond(threads int) (polls []tick.Batch) {
	const records, calls, batches = 200_000, 20, 200
	steps := records / (calls + 1) / threads
	each := s1 / int64(steps*calls) // of a thread
	polls = make([]tick.Batch, batches)
	at := start
	for i := range steps * calls {
		b := &polls[i*batches/(steps*calls)]
		length := each / 2
		held := i/calls%2 == 1
		if held && i%calls == calls-1 { // the time that the neighbor took
			length += 8 * each
		} else {
			length -= each * 2 / 10
		}
		for th := range threads {
			c := events.Call{
				Start: at, Duration: length, OnCPU: length, Gap: each / 2, GapOnCPU: each / 2,
				PID: 7, TID: uint32(100 + th), Op: 0x0101, Weight: 1,
			}
			switch i % calls {
			case calls - 2:
				c.Op, c.Args[0] = 0x0121, 4096
			case calls - 1:
				c.Op, c.OnCPU, c.Runnable = 0x0140, c.Duration/4, c.Duration-c.Duration/4
				w := events.Wait{
					Start: c.Start + c.Duration/4, Duration: c.Runnable, Taken: c.Runnable, PID: 7, TID: c.TID, Op: c.Op,
					State: events.WaitRunnable, Who: stress,
				}
				if !held {
					w.State, w.Reason, w.Who, w.Flags = events.WaitBlocked, events.ReasonPoll, events.Thread{}, events.WaitByIRQ
					c.Runnable, c.Blocked = 0, c.Runnable
				}
				b.Waits = append(b.Waits, w)
			}
			b.Calls = append(b.Calls, c)
		}
		at += length + each/2
	}
	return polls
}

// BenchmarkSecond measures the share of a CPU that 200,000 records a second take, and the memory
// for the minute that is kept.
func BenchmarkSecond(b *testing.B) {
	for name, threads := range map[string]int{"8 threads": 8, "64 threads": 64} {
		b.Run(name, func(b *testing.B) {
			polls := aSecond(threads)
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			l, e := ledger.New(1), New(1)
			second := int64(0)
			run := func() {
				second++
				for i := range polls {
					for j := range polls[i].Calls {
						polls[i].Calls[j].Start += s1
					}
					for j := range polls[i].Waits {
						polls[i].Waits[j].Start += s1
					}
					e.Add(l.Batch(polls[i].Waits, polls[i].Calls))
				}
				t := tick.Tick{Time: time.Unix(0, start+(second+1)*s1), Window: time.Second, Processes: []tick.Process{{PID: 7}}}
				t.Breakdowns = l.Tick(t.Threads, t.Processes)
				if chains, _ := e.Tick(&t); second > 5 && len(chains) == 0 {
					b.Fatal("nothing was found")
				}
			}
			for range windowSeconds {
				run()
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			for b.Loop() {
				run()
			}
			b.ReportMetric(100*b.Elapsed().Seconds()/float64(b.N), "%CPU")
			b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/(1<<20), "MiB")
		})
	}
}
