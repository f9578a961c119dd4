package metric

import (
	"math"
	"slices"
	"testing"
	"time"

	"ingero/internal/stats"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

var epoch = time.Unix(1_800_000_000, 0)

// world makes the ticks of a session.
type world struct {
	t    *testing.T
	m    *Meter
	now  time.Time
	seq  uint64
	pids []uint32
	ops  map[opPID]*tick.Op
	last map[string]float64 // of counters, by name and labels
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{t: t, m: New(Options{Version: "1.2.3", Node: "gpu-7"}), now: epoch, ops: map[opPID]*tick.Op{}, last: map[string]float64{}}
}

// call makes a call, counted and recorded.
func (w *world) call(pid uint32, op events.Op, c events.Call) events.Call {
	c.PID, c.Op = pid, op
	c.TID = max(c.TID, pid)
	c.Weight = max(c.Weight, 1)
	k := opPID{pid, op}
	o := w.ops[k]
	if o == nil {
		o = &tick.Op{PID: pid, Op: op, Dur: &stats.Sketch{}, DurLast: &stats.Sketch{}, Hist: &stats.Hist{}}
		w.ops[k] = o
	}
	for _, x := range []*tick.Counts{&o.Sum, &o.Last} {
		x.Calls += uint64(c.Weight)
		x.Done += uint64(c.Weight)
		if c.Flags&events.CallFailed != 0 {
			x.Errors++
		}
	}
	o.DurLast.Add(c.Duration, c.Weight)
	o.Hist.Record(c.Duration, c.Weight)
	if !slices.Contains(w.pids, pid) {
		w.pids = append(w.pids, pid)
	}
	return c
}

func (w *world) batch(b tick.Batch) {
	w.t.Helper()
	if err := w.m.Batch(&b); err != nil {
		w.t.Fatal(err)
	}
}

// tick makes a tick a second after the previous one, and checks that no counter fell and no metric
// has too many series.
func (w *world) tick(fill func(*tick.Tick)) *Snapshot {
	w.t.Helper()
	w.now = w.now.Add(time.Second)
	w.seq++
	t := &tick.Tick{Time: w.now, Started: epoch, Seq: w.seq, Window: time.Second}
	for _, pid := range w.pids {
		t.Processes = append(t.Processes, tick.Process{PID: pid, Comm: "train", Started: epoch})
		t.Threads = append(t.Threads, tick.Thread{PID: pid, TID: pid})
	}
	for _, o := range w.ops {
		t.Ops = append(t.Ops, *o)
	}
	if fill != nil {
		fill(t)
	}
	if err := w.m.Tick(t); err != nil {
		w.t.Fatal(err)
	}
	for _, o := range w.ops {
		o.Last = tick.Counts{}
		o.Dur.Merge(o.DurLast)
		o.DurLast = &stats.Sketch{}
		hist := *o.Hist
		o.Hist = &hist
	}
	s := w.m.Snapshot()
	w.check(s)
	return s
}

func (w *world) check(s *Snapshot) {
	w.t.Helper()
	now := map[string]float64{}
	for i := range s.Families {
		f := &s.Families[i]
		if len(f.Points) > f.Most {
			w.t.Errorf("%s has %d series, at most %d", f.Name, len(f.Points), f.Most)
		}
		for _, p := range f.Points {
			key := f.Name + "{" + join(p.Labels) + "}"
			if _, twice := now[key]; twice {
				w.t.Errorf("%s is there twice", key)
			}
			now[key] = p.Value
			if len(p.Labels) != len(f.Labels) || math.IsNaN(p.Value) || math.IsInf(p.Value, 0) {
				w.t.Errorf("%s = %v", key, p.Value)
			}
			if was, known := w.last[key]; known && f.Kind == Counter && p.Value < was {
				w.t.Errorf("%s fell from %v to %v", key, was, p.Value)
			}
		}
	}
	w.last = now
}

func join(labels []string) (s string) {
	for _, l := range labels {
		s += l + ","
	}
	return s
}

// value returns a point's value, NaN if there is none.
func value(s *Snapshot, id ID, labels ...string) float64 {
	for i := range s.Families {
		for _, p := range s.Families[i].Points {
			if s.Families[i].Row == &Rows[id] && slices.Equal(p.Labels, labels) {
				if p.Dist != nil {
					return float64(p.Dist.Count())
				}
				return p.Value
			}
		}
	}
	return math.NaN()
}

// sum returns the sum of a metric's points.
func sum(s *Snapshot, id ID) (all float64) {
	for i := range s.Families {
		for _, p := range s.Families[i].Points {
			if s.Families[i].Row == &Rows[id] {
				all += p.Value
			}
		}
	}
	return all
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*math.Max(1, math.Abs(want)) || math.IsNaN(got) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}
