package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"ingero/internal/stats"
	"ingero/internal/store"
	"ingero/internal/store/segment"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// began is the start of the recordings: at a full hour, which is a boundary of every rollup.
var began = time.Date(2026, 11, 21, 14, 0, 0, 0, time.UTC)

// kinds are the operations of the stream: their frequency, and the median duration of their calls
// in ns.
var kinds = []struct {
	op     string
	often  int
	median float64
}{
	{"cudaLaunchKernel", 400, 4_000}, {"cuLaunchKernel", 300, 2_500}, {"cudaMemcpyAsync", 80, 6_000}, {"cuMemcpyHtoDAsync_v2", 60, 4_000},
	{"cudaStreamSynchronize", 20, 400_000}, {"cudaEventSynchronize", 40, 1_500}, {"cudaGraphLaunch", 40, 900}, {"cudaMallocAsync", 20, 5_000},
	{"cudaFreeAsync", 20, 3_000}, {"cudaMemsetAsync", 10, 4_000}, {"cudaMemcpy", 5, 60_000}, {"cuStreamSynchronize", 5, 300_000},
}

// key identifies the calls of one process and operation.
type key struct {
	pid uint32
	op  events.Op
}

// stream makes the calls of four processes, with one wait per twenty calls. The calls of one tick
// repeat with later times.
type stream struct {
	calls    []events.Call
	waits    []events.Wait
	each     time.Duration // length of a tick
	sums     map[key]*store.Sum
	hists    map[key]*stats.Hist
	total    map[key]*store.Sum // sums of all that was fed
	hist     map[key]*stats.Hist
	now      time.Time
	seq      uint64
	own      float64 // CPU seconds spent on making the stream
	reported bool    // ticks include results of the session's stages

	lengths stats.Sketch // step lengths, if reported is set
}

// newStream returns a stream of a number of calls per tick, in order of their ends.
func newStream(calls int, each time.Duration, seed uint64) (*stream, error) {
	s := &stream{each: each, sums: map[key]*store.Sum{}, hists: map[key]*stats.Hist{}, total: map[key]*store.Sum{}, hist: map[key]*stats.Hist{}, now: began}
	r := rand.New(rand.NewPCG(seed, 3))
	var ops []events.Op
	var medians []float64
	for _, k := range kinds {
		op, ok := events.OpByName(k.op)
		if !ok {
			return nil, fmt.Errorf("there is no operation %s", k.op)
		}
		for range k.often {
			ops, medians = append(ops, op), append(medians, k.median)
		}
	}
	for i := range calls {
		which := r.IntN(len(ops))
		s.calls = append(s.calls, newCall(r, ops[which], medians[which], i, began.UnixNano()+int64(each)*int64(i)/int64(calls)))
		if i%20 == 0 {
			c := &s.calls[i]
			s.waits = append(s.waits, events.Wait{Start: c.Start, Duration: 1 + c.Duration/2, Arg: 7, PID: c.PID, TID: c.TID, Op: c.Op, CPU: uint16(i % 8),
				State: events.WaitBlocked, Reason: events.ReasonLock})
		}
	}
	slices.SortStableFunc(s.calls, func(a, b events.Call) int { return int(a.End() - b.End()) })
	for i := range s.calls {
		c := &s.calls[i]
		k := key{c.PID, c.Op}
		if s.sums[k] == nil {
			s.sums[k], s.hists[k], s.total[k], s.hist[k] = &store.Sum{}, &stats.Hist{}, &store.Sum{}, &stats.Hist{}
		}
		s.sums[k].Add(c)
		s.hists[k].Record(c.Duration, 1)
	}
	return s, nil
}

// newCall makes the i-th call. Its duration is lognormal, and is on-CPU, runnable or blocked time.
func newCall(r *rand.Rand, op events.Op, median float64, i int, start int64) events.Call {
	c := events.Call{Start: start, Duration: int64(median * math.Exp(0.5*r.NormFloat64())), Op: op, Weight: 1,
		PID: 4000 + uint32(i%4), TID: 4000 + uint32(i%4) + 100*uint32(r.IntN(2)), Gap: 500 + int64(400*r.ExpFloat64()),
		Args: [events.MaxArgs]uint64{0x4000_0000 + uint64(r.IntN(64))*64, 0x55aa_0000, 1 << 20}}
	if r.IntN(50) == 0 {
		c.Runnable = c.Duration / 4
	}
	if c.Duration > 100_000 {
		c.Blocked = c.Duration / 2
	}
	c.OnCPU, c.GapOnCPU = c.Duration-c.Runnable-c.Blocked, c.Gap
	return c
}

// feed records a tick's calls in batches. Between two batches it calls after, if not nil.
func (s *stream) feed(db *store.DB, batches int, after func() error) error {
	from := s.now
	for i := range batches {
		part := func(n int) (int, int) { return n * i / batches, n * (i + 1) / batches }
		c, c1 := part(len(s.calls))
		w, w1 := part(len(s.waits))
		s.now = from.Add(s.each * time.Duration(i+1) / time.Duration(batches))
		if err := db.Batch(&tick.Batch{Calls: s.calls[c:c1], Waits: s.waits[w:w1]}); err != nil {
			return err
		}
		if after != nil {
			if err := after(); err != nil {
				return err
			}
		}
	}
	t := s.tick()
	if err := db.Tick(t); err != nil {
		return err
	}
	s.shift()
	return nil
}

// tick returns the session's counts so far.
func (s *stream) tick() *tick.Tick {
	from := cpu(unix.RUSAGE_THREAD)
	s.seq++
	t := &tick.Tick{Time: s.now, Started: began, Seq: s.seq, Window: s.each, Records: s.seq * uint64(len(s.calls)), Host: tick.Host{CPUs: 8}}
	for k, sum := range s.sums {
		total, hist := s.total[k], s.hist[k]
		total.Merge(sum)
		for i, n := range s.hists[k] {
			hist[i] += n
		}
		t.Ops = append(t.Ops, tick.Op{PID: k.pid, Op: k.op, Sum: total.Counts, Last: sum.Counts, Dur: &total.Dur, DurLast: &sum.Dur, Hist: hist})
	}
	if s.reported {
		s.tell(t)
	}
	s.own += cpu(unix.RUSAGE_THREAD) - from
	return t
}

// shift moves the calls to the next tick.
func (s *stream) shift() {
	from := cpu(unix.RUSAGE_THREAD)
	for i := range s.calls {
		s.calls[i].Start += int64(s.each)
	}
	for i := range s.waits {
		s.waits[i].Start += int64(s.each)
	}
	s.own += cpu(unix.RUSAGE_THREAD) - from
}

// fed returns the number of calls in the ticks so far.
func (s *stream) fed() int { return int(s.seq) * len(s.calls) }

// open starts a recording with the stream's clock. It needs no timer, since batches come often
// enough.
func (s *stream) open(path string, maxBytes int64) (*store.DB, error) {
	return store.Open(store.Options{Path: path, MaxBytes: maxBytes, Session: segment.Session{Node: "bench"},
		Now: func() time.Time { return s.now }, AfterFunc: func(time.Duration, func()) func() bool { return func() bool { return true } }})
}
