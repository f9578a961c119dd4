package ledger

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// random makes records of threads with mixed activity, as the kernel would: in order, with the
// parts of a call and of a gap adding up.
func random(r *rand.Rand, threads, calls int) (out tick.Batch) {
	ops := []events.Op{0x0101, 0x0110, 0x0120, 0x0140, 0x0141, 0x0240}
	type state struct{ now, last int64 }
	at := make([]state, threads)
	for range calls {
		i := r.IntN(threads)
		t := &at[i]
		pid, tid := uint32(7+i%2), uint32(100+i)
		if t.now == 0 {
			t.now, t.last = base+int64(i), base+int64(i)
		}
		var sums [2][4]int64
		busy := func(part int, op events.Op) {
			for range r.IntN(5) {
				d := r.Int64N(3e6)
				k := r.IntN(4)
				sums[part][k] += d
				if k > 0 && d >= 20_000 {
					w := events.Wait{Start: t.now, Duration: d, PID: pid, TID: tid, Op: op, State: events.WaitState(k)}
					w.Who = events.Thread{PID: uint32(r.IntN(9)), TID: uint32(100 + r.IntN(2*threads))}
					if k == int(events.WaitBlocked) {
						w.Reason = events.Reason(r.IntN(Reasons))
					} else {
						w.Taken = r.Int64N(d)
					}
					out.Waits = append(out.Waits, w)
				}
				t.now += d
			}
			t.now++
			sums[part][0]++
		}
		busy(0, 0)
		begin, op := t.now, ops[r.IntN(len(ops))]
		busy(1, op)
		g, c := sums[0], sums[1]
		out.Calls = append(out.Calls, events.Call{
			Start: begin, Duration: t.now - begin, OnCPU: c[0], Runnable: c[1], Throttled: c[2], Blocked: c[3],
			Gap: begin - t.last, GapOnCPU: g[0], GapRunnable: g[1], GapThrottled: g[2], GapBlocked: g[3],
			PID: pid, TID: tid, Op: op, Weight: 1, Args: [events.MaxArgs]uint64{r.Uint64N(1 << 20)},
		})
		t.last = t.now
	}
	return out
}

// play feeds records in polls, split where cut reports true. Each call's waits are in its own poll
// or an earlier one.
func play(all *tick.Batch, cut func() bool) (steps []Step, last tick.Tick) {
	l := New(3)
	w := 0
	var b tick.Batch
	flush := func() {
		steps = append(steps, copySteps(l.Batch(b.Waits, b.Calls))...)
		b = tick.Batch{}
	}
	for i := range all.Calls {
		c := &all.Calls[i]
		for w < len(all.Waits) && all.Waits[w].TID == c.TID && all.Waits[w].Start < c.End() {
			b.Waits = append(b.Waits, all.Waits[w])
			w++
		}
		b.Calls = append(b.Calls, *c)
		if cut() {
			flush()
		}
		if i%500 == 499 {
			flush()
			last = tick.Tick{Time: time.Unix(0, c.End())}
			last.Breakdowns = l.Tick(last.Threads, last.Processes)
		}
	}
	flush()
	last = tick.Tick{Time: time.Unix(0, base)}
	last.Breakdowns = l.Tick(nil, nil)
	return steps, last
}

// The parts of any step add up to its length, and none exceeds it.
func TestPartsAddUp(t *testing.T) {
	for seed := range uint64(20) {
		all := random(rand.New(rand.NewPCG(seed, 1)), 5, 2000)
		steps, _ := play(&all, func() bool { return true })
		if len(steps) < 200 {
			t.Fatalf("%d steps", len(steps))
		}
		for _, s := range steps {
			if s.Parts.Sum() != s.Length() {
				t.Fatalf("parts are %d, the step is %d: %+v", s.Parts.Sum(), s.Length(), s)
			}
			if s.Parts.Unknown != 0 {
				t.Fatalf("all was recorded, but %d ns are unknown: %+v", s.Parts.Unknown, s)
			}
			if l := s.Loss; l.Min < 0 || l.Min > l.Est || l.Est > l.Max || l.Max > s.Parts.SyncRunnable+s.Parts.SyncThrottled+s.Parts.Blocked[events.ReasonStopped] {
				t.Fatalf("loss %+v of %+v", s.Loss, s.Parts)
			}
		}
	}
}

// A step has the stack of its longest computation between two calls, if that has one.
func TestCodeStack(t *testing.T) {
	launch, _ := events.OpByName("cudaLaunchKernel")
	wait, _ := events.OpByName("cudaDeviceSynchronize")
	var all tick.Batch
	at := int64(base)
	call := func(op events.Op, gap int64, stack uint32) {
		at += gap
		all.Calls = append(all.Calls, events.Call{Start: at, Duration: 1e6, OnCPU: 1e6, PID: 7, TID: 7, Op: op, Weight: 1, Gap: gap, GapOnCPU: gap, GapStack: stack})
		at += 1e6
	}
	call(wait, 0, 0)
	call(launch, 12e6, 5)
	call(launch, 30e6, 6)
	call(launch, 50e6, 0)
	call(wait, 20e6, 7)
	call(launch, 9e6, 0)
	call(wait, 1e6, 0)
	steps, _ := play(&all, func() bool { return false })
	var got []uint32
	for _, s := range steps {
		got = append(got, s.CodeStack)
	}
	if want := []uint32{6, 0}; !slices.Equal(got[len(got)-2:], want) {
		t.Errorf("stacks of steps %v, want %v at the end", got, want)
	}
}

// The result does not depend on how the input is split into polls.
func TestCuts(t *testing.T) {
	for seed := range uint64(10) {
		all := random(rand.New(rand.NewPCG(seed, 2)), 6, 3000)
		want, wantTick := play(&all, func() bool { return false })
		r := rand.New(rand.NewPCG(seed, 3))
		got, gotTick := play(&all, func() bool { return r.IntN(7) == 0 })
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: %d steps, want %d, or they differ", seed, len(got), len(want))
		}
		if !reflect.DeepEqual(gotTick.Breakdowns, wantTick.Breakdowns) || len(gotTick.Breakdowns) == 0 {
			t.Fatalf("seed %d:\n got %+v\nwant %+v", seed, gotTick.Breakdowns, wantTick.Breakdowns)
		}
	}
}

// The parts of a breakdown add up to the kernel's account, and names to no more than their part.
func TestBreakdownsAddUp(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	all := random(r, 8, 4000)
	l := New(3)
	l.Batch(all.Waits, all.Calls)
	times := func() tick.Times {
		return tick.Times{OnCPU: r.Uint64N(1e9), Runnable: r.Uint64N(1e7), Throttled: r.Uint64N(1e9), Blocked: r.Uint64N(1e7)}
	}
	var want uint64
	var tk tick.Tick
	for i := range 8 {
		x := tick.Thread{PID: 7, TID: uint32(100 + i), InCalls: times(), Between: times(), Ended: i%3 == 0}
		x.Sync = tick.Times{OnCPU: x.InCalls.OnCPU / 2, Blocked: x.InCalls.Blocked * 2} // more than the total, as with racing readers
		want += x.InCalls.Total() + x.Between.Total()
		tk.Threads = append(tk.Threads, x)
	}
	for _, b := range l.Tick(tk.Threads, nil) {
		if b.PID == 7 && (b.Elapsed != want || b.Threads != 8) {
			t.Errorf("elapsed %d, want %d; %d threads", b.Elapsed, want, b.Threads)
		}
		if got := b.GPUWait + b.CallCPU + b.GapCPU + b.Runnable + b.Throttled + b.Blocked; got != b.Elapsed {
			t.Errorf("parts are %d of %d", got, b.Elapsed)
		}
		for _, x := range []struct {
			shares []tick.Share
			total  uint64
		}{{b.RunnableBy, b.Runnable}, {b.BlockedOn, b.Blocked}} {
			var sum uint64
			for _, s := range x.shares {
				sum += s.NS
			}
			if sum > x.total || x.total > 0 && sum == 0 {
				t.Errorf("names are %d of %d", sum, x.total)
			}
		}
	}
}

// Ended threads are dropped, and memory stays bounded.
func TestBounded(t *testing.T) {
	l := New(0)
	r := rand.New(rand.NewPCG(5, 5))
	for round := range 40 {
		var b tick.Batch
		for range 2000 {
			pid, tid := r.Uint32N(1<<20), r.Uint32N(1<<20)
			who := events.Thread{PID: r.Uint32(), TID: r.Uint32()}
			if round%2 == 0 {
				pid, tid = 7, 7
			}
			start := base + int64(round)*1e9
			b.Waits = append(b.Waits, events.Wait{Start: start, Duration: r.Int64N(1e9), Taken: 5, PID: pid, TID: tid, State: events.WaitState(1 + r.IntN(3)),
				Reason: events.Reason(r.IntN(Reasons)), Who: who, Dev: r.Uint32()})
			b.Calls = append(b.Calls, events.Call{Start: start, Duration: r.Int64N(1e6), PID: pid, TID: tid, Op: events.Op(r.Uint32())})
		}
		l.Batch(b.Waits, b.Calls)
	}
	if len(l.threads) > maxThreads || len(l.procs) > maxProcesses || l.pending > maxPendings || len(l.steps) > maxSteps {
		t.Errorf("%d threads, %d processes, %d waits, %d steps", len(l.threads), len(l.procs), l.pending, len(l.steps))
	}
	for _, p := range l.procs {
		if len(p.blocked.list) > maxShares || len(p.runnable.list) > maxShares {
			t.Errorf("%d and %d names", len(p.runnable.list), len(p.blocked.list))
		}
	}
	for range 2*idleTicks + 2 {
		l.Tick(nil, nil)
	}
	if len(l.threads)+len(l.procs)+l.pending != 0 {
		t.Errorf("%d threads, %d processes, %d waits are left", len(l.threads), len(l.procs), l.pending)
	}
}

// A waker's time is known only as far as its remembered waits, and as they were.
func TestPast(t *testing.T) {
	l := New(0)
	who := events.Thread{PID: 5, TID: 5}
	for i := range int64(200) { // 1 ms runnable, for one of several processes, 1 ms on the CPU
		l.thread(5, 5).past.add(&events.Wait{Start: base + i*2e6, Duration: 1e6, State: events.WaitRunnable, Who: events.Thread{PID: uint32(9 + i%(kinds+1)), TID: 9}})
	}
	for _, tt := range []struct{ from, to, runnable, onCPU int64 }{
		{390e6, 400e6, 5e6, 5e6},
		{391e6, 392e6, 0, 1e6},
		{0, 400e6, maxPast * 1e6, maxPast*1e6 + 1e6}, // from the end of the last dropped wait
		{0, 100e6, 0, 0},
		{390e6, 390e6, 0, 0},
	} {
		var p path
		l.follow(&p, who, 1, base+tt.from, base+tt.to)
		got := p.share
		if int64(got.Runnable) != tt.runnable || int64(got.OnCPU) != tt.onCPU || tt.runnable > 0 && got.By.TID != 9 {
			t.Errorf("[%d, %d): %+v", tt.from, tt.to, got)
		}
	}
}

// A TID reused by another process starts with an empty account.
func TestReuse(t *testing.T) {
	l := New(0)
	call := func(pid uint32, at int64) []Step {
		return l.Batch(nil, []events.Call{{Start: base + at, Duration: 1000, PID: pid, TID: 7, Op: 0x0140}})
	}
	call(7, 0)
	if n := len(call(8, 1e6)); n != 0 {
		t.Errorf("%d steps across two processes", n)
	}
	if s := call(8, 2e6); len(s) != 1 || s[0].PID != 8 {
		t.Errorf("steps %+v", s)
	}
}

// FuzzLedger feeds records made of any bytes.
func FuzzLedger(f *testing.F) {
	f.Add([]byte("0123456789abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz"))
	for i := range uint64(4) {
		r := rand.New(rand.NewPCG(i, 6))
		b := make([]byte, 600)
		for j := range b {
			b[j] = byte(r.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		l := New(1)
		next := func() int64 {
			if len(data) < 9 {
				data = nil
				return 0
			}
			v := int64(binary.LittleEndian.Uint64(data[1:])) >> (data[0] % 64)
			data = data[9:]
			return v
		}
		for len(data) > 0 {
			tid := uint32(next()) % 4
			w := events.Wait{Start: next(), Duration: next(), Taken: next(), PID: tid % 2, TID: tid, Op: events.Op(next()), State: events.WaitState(next()),
				Reason: events.Reason(next()), Flags: events.WaitFlags(next()), Who: events.Thread{PID: uint32(next()) % 4, TID: uint32(next()) % 4}}
			c := events.Call{Start: next(), Duration: next(), OnCPU: next(), Runnable: next(), Throttled: next(), Gap: next(), GapOnCPU: next(), GapRunnable: next(),
				PID: tid % 2, TID: tid, Op: 0x0140 + events.Op(next())%3, Weight: uint32(next()), Flags: events.CallFlags(next())}
			for _, s := range l.Batch([]events.Wait{w}, []events.Call{c}) {
				if s.Parts.Sum() != s.Length() || s.Length() <= 0 || s.Loss.Min < 0 || s.Loss.Min > s.Loss.Est || s.Loss.Est > s.Loss.Max || s.Loss.Max > s.Length()+longest {
					t.Fatalf("%+v", s)
				}
			}
			l.Tick([]tick.Thread{{PID: tid % 2, TID: tid, Enrolled: next()%2 == 0, Ended: next()%3 == 0, Since: next()}}, nil)
		}
	})
}

func BenchmarkBatch(b *testing.B) {
	for _, threads := range []int{1, 8} {
		for _, waits := range []bool{false, true} {
			b.Run(fmt.Sprintf("threads=%d/waits=%v", threads, waits), func(b *testing.B) {
				all := steady(threads, 4096, waits)
				l := New(1)
				b.ReportAllocs()
				n := 0
				for b.Loop() {
					l.Batch(all.Waits, all.Calls)
					n += len(all.Calls)
					for i := range all.Calls {
						all.Calls[i].Start += 1e9
					}
					for i := range all.Waits {
						all.Waits[i].Start += 1e9
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/call")
			})
		}
	}
}

// steady makes calls of threads that take turns: 30 launches, a copy, a synchronize; with one wait
// per step.
func steady(threads, calls int, waits bool) (out tick.Batch) {
	for i := range calls {
		th := i % threads
		k := i / threads % 32
		c := events.Call{Start: base + int64(i)*10_000, Duration: 5000, OnCPU: 5000, Gap: 5000, GapOnCPU: 5000, PID: 7, TID: uint32(100 + th), Op: 0x0101, Weight: 1}
		switch k {
		case 30:
			c.Op, c.Args[0] = 0x0121, 4096
		case 31:
			c.Op, c.Duration, c.OnCPU, c.Blocked = 0x0140, 2_000_000, 5000, 1_995_000
			if waits {
				out.Waits = append(out.Waits, events.Wait{Start: c.Start + 1000, Duration: 1_990_000, PID: 7, TID: c.TID, Op: c.Op, State: events.WaitBlocked,
					Reason: events.ReasonPoll, Flags: events.WaitByIRQ})
			}
		}
		out.Calls = append(out.Calls, c)
	}
	return out
}

// A share has the latest name of the process's busiest thread: at first the thread may have been
// about to exec another program.
func TestShareGoesByTheBusiest(t *testing.T) {
	thread := func(tid uint32, name string) events.Thread {
		return events.Thread{PID: 9, TID: tid, Parent: 1, Name: events.NameOf(name)}
	}
	for name, tt := range map[string]struct {
		by   []events.Thread
		ms   []int64
		want string
	}{
		"ran another program":       {[]events.Thread{thread(9, "sh"), thread(9, "hog")}, []int64{30, 5}, "hog"},
		"another thread does more":  {[]events.Thread{thread(9, "sh"), thread(11, "hog"), thread(11, "hog")}, []int64{10, 8, 8}, "hog"},
		"another thread does least": {[]events.Thread{thread(9, "hog"), thread(11, "logger"), thread(9, "hog")}, []int64{8, 9, 8}, "hog"},
	} {
		var p process
		for i, who := range tt.by {
			ns := tt.ms[i] * 1e6
			p.named(p.pid, &queued{Wait: events.Wait{State: events.WaitRunnable, Start: base + int64(i)*1e9, Duration: ns, Taken: ns, Who: who}}, 0, false, 0)
		}
		if got := p.runnable.top(1 << 60); len(got) != 1 || got[0].Who.Name.String() != tt.want {
			t.Errorf("%s: %+v, want %s", name, got, tt.want)
		}
	}
}

// A thread beyond the limit counts in its process's sum, also after its end.
func TestThreadsBeyondTheLimit(t *testing.T) {
	l := New(0)
	threads := make([]tick.Thread, maxThreads+1)
	for i := range threads {
		threads[i] = tick.Thread{PID: 7, TID: uint32(100 + i), Since: base, Until: base + 1e9, Between: tick.Times{OnCPU: 1e9}}
	}
	processes := []tick.Process{{PID: 7}}
	before := l.Tick(threads, processes)[0].Elapsed
	threads[maxThreads].Ended = true
	l.Tick(threads, processes)
	if after := l.Tick(threads[:maxThreads], processes)[0].Elapsed; after != before {
		t.Errorf("after the end of the last thread the process has %d ns, before %d", after, before)
	}
}
