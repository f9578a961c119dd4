package segment

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"

	"ingero/internal/session"
	"ingero/internal/store/log"
	"ingero/internal/store/storetest"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// changing returns ticks in which processes, operations and GPUs appear, change and disappear.
func changing(n int) (out []*tick.Tick) {
	r := rand.New(rand.NewPCG(4, 5))
	k := storetest.NewKernel()
	some := func() bool { return r.IntN(3) > 0 }
	for seq := range uint64(n) {
		t := k.Tick(seq+1, storetest.Began.Add(time.Duration(seq+1)*time.Second), seq == uint64(n)-1)
		t.Threads, t.Xids, t.HostSums, t.Chains = nil, nil, nil, nil
		t.Ops = []tick.Op{}
		t.Processes = slices.DeleteFunc(t.Processes, func(tick.Process) bool { return !some() })
		for i := range t.Processes {
			t.Processes[i].Counted = some()
		}
		t.Others = slices.DeleteFunc(t.Others, func(tick.Process) bool { return !some() })
		for _, pid := range []uint32{1, 2, 3} {
			if pid == 1 || some() {
				o := *k.Op(pid, storetest.OpLaunch)
				o.Sum.Calls, o.Sum.Done, o.Thinned = uint64(r.IntN(3)), uint64(r.IntN(3)), some()
				hist := *o.Hist
				hist[pid] = seq / 3 // even if the sums stay the same
				o.Hist = &hist
				t.Ops = append(t.Ops, o)
			}
		}
		t.Overhead = tick.Overhead{Budget: 0.02, Share: r.Float64(), Agent: r.Float64()}
		if some() {
			t.Overhead.Shed = []string{"stacks-rare", "hot-off"}[:1+r.IntN(2)]
		}
		if some() {
			t.Overhead.Floor = tick.Floor{Share: r.Float64(), Rate: r.Float64(), Probe: time.Duration(r.IntN(1000))}
		}
		for i := range t.GPUs {
			g := &t.GPUs[i]
			g.Time = t.Time.Add(-time.Duration(r.IntN(3)) * time.Second)
			g.Index = r.IntN(2)
			if some() {
				g.Power = storetest.Ptr(r.Float64())
			}
		}
		if t.GPUs = slices.DeleteFunc(t.GPUs, func(tick.GPU) bool { return !some() }); some() {
			t.Chains = []tick.Chain{{ID: "c", At: "a.py:3", Lost: time.Duration(seq)}, {ID: "b"}}
		}
		out = append(out, t)
	}
	return out
}

// A replayed tick equals the recorded one, including what disappeared, and the next segment records
// what disappeared when it began.
func TestReplayOfWhatComesAndGoes(t *testing.T) {
	ticks := changing(60)
	log, err := OpenSession(inSegments(t, ticks), testSession().ID)
	if err != nil {
		t.Fatal(err)
	}
	sums := map[uint64]uint64{}
	r := NewReplay(log, ReplayOptions{Sum: func(t *tick.Tick, sum uint64, known bool) {
		if known {
			sums[t.Seq] = sum
		}
	}})
	at := 0
	for {
		_, err := r.Poll(&tick.Batch{})
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		var got tick.Tick
		if !r.Due(&got) {
			continue
		}
		if err := r.Totals(&got); err != nil {
			t.Fatal(err)
		}
		want := ticks[at]
		at++
		slices.SortFunc(got.Ops, storetest.ByOp)
		if d := diff.Diff(reportedBy(want), reportedBy(&got)); d != "" {
			t.Fatalf("tick %d -live +replay:\n%s", at, d)
		}
		if sum := chainSum(want); sums[got.Seq] != sum || (sum == 0) != (len(want.Chains) == 0) {
			t.Errorf("tick %d: the sum of its chains is %d, want %d", at, sums[got.Seq], sum)
		}
	}
	if at != len(ticks) {
		t.Errorf("%d ticks, want %d", at, len(ticks))
	}
}

// inSegments writes ticks to two segments.
func inSegments(t *testing.T, ticks []*tick.Tick) twoSegments {
	t.Helper()
	m, w := beginLog(t, Head{})
	logs := []*memory{m}
	for i, x := range ticks {
		if i == 30 {
			m, next := beginLog(t, Head{Seq: 1})
			if err := next.carry(w); err != nil {
				t.Fatal(err)
			}
			logs, w = append(logs, m), next
		}
		w.Add(&tick.Batch{Procs: []tick.ProcEvent{{Time: x.Time.UnixNano(), Kind: tick.ProcExited, PID: uint32(i)}}})
		if err := errors.Join(w.Tick(x, chainSum(x)), w.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	files := twoSegments{}
	for i := range logs {
		files[Name(testSession().ID, i, false)] = logs[i].Bytes()
	}
	return files
}

// reported is the part of a tick that appears and disappears.
type reported struct {
	Overhead          tick.Overhead
	Processes, Others []tick.Process
	Ops               []tick.Op
	GPUs              []tick.GPU
}

func reportedBy(t *tick.Tick) (x reported) {
	x.Processes, x.Others, x.GPUs = append(x.Processes, t.Processes...), append(x.Others, t.Others...), append(x.GPUs, t.GPUs...)
	for _, o := range t.Ops {
		x.Ops = append(x.Ops, tick.Op{PID: o.PID, Op: o.Op, Sum: o.Sum, Hist: o.Hist, Thinned: o.Thinned})
	}
	x.Overhead = t.Overhead
	return x
}

// chainSum stands for the checksum of a tick's chains.
func chainSum(t *tick.Tick) (sum uint64) {
	for i := range t.Chains {
		sum += t.Seq<<32 | uint64(i+1)
	}
	return sum
}

// twoSegments are files in memory.
type twoSegments map[string][]byte

func (s twoSegments) List() (out []log.FileInfo, err error) {
	for name, b := range s {
		out = append(out, log.FileInfo{Name: name, Bytes: int64(len(b))})
	}
	return out, nil
}

func (s twoSegments) Open(name string) (log.File, error) {
	b, ok := s[name]
	if !ok {
		return nil, os.ErrNotExist
	}
	return sized{bytes.NewReader(b)}, nil
}

type sized struct{ *bytes.Reader }

func (s sized) Size() int64  { return s.Reader.Size() }
func (s sized) Close() error { return nil }

// rerun replays a log through a session.
func rerun(t *testing.T, b []byte) *storetest.Keeper {
	t.Helper()
	k, r := &storetest.Keeper{}, openReplay(t, b, ReplayOptions{})
	if err := session.Run(context.Background(), session.Config{Source: session.FromRecording(r), Clock: r, Sinks: []tick.Sink{k}}); err != nil {
		t.Fatal(err)
	}
	return k
}

// A recording that was truncated at any byte replays its complete ticks unchanged, and one more for
// the rest.
func TestReplayOfACutRecording(t *testing.T) {
	b := record(t, 5, 3000).bytes
	whole := rerun(t, b).Ticks
	most := 0
	for cut := len(b) / 5; cut < len(b); cut += len(b) / 37 {
		got := rerun(t, b[:cut]).Ticks
		last := got[len(got)-1]
		if !last.Final {
			t.Fatalf("cut at %d: the last tick is not the final one", cut)
		}
		for i := range got[:len(got)-1] {
			if d := diff.Diff(jsonOf(t, &whole[i]), jsonOf(t, &got[i])); d != "" {
				t.Fatalf("cut at %d: tick %d -whole +cut:\n%s", cut, i+1, d)
			}
		}
		most = max(most, len(got)-1)
	}
	if most < 3 {
		t.Errorf("at most %d ticks were kept", most)
	}
}

// A recording of the first version replays its ticks, and further ticks where it has none.
func TestReplayOfTheFirstVersion(t *testing.T) {
	b, err := os.ReadFile("testdata/v1.ilog")
	if err != nil {
		t.Fatal(err)
	}
	k := rerun(t, b)
	if len(k.Ticks) != 3 || len(k.Calls) < 3*60 || !k.Ticks[2].Final || !k.Ticks[0].Time.Equal(storetest.Began.Add(time.Second)) {
		t.Errorf("%d ticks, %d calls", len(k.Ticks), len(k.Calls))
	}
}

// Missing ticks are filled in, once a second, except for periods without any activity.
func TestReplayFillsTicks(t *testing.T) {
	m, w := beginLog(t, Head{})
	at := storetest.Began.UnixNano()
	for _, seconds := range []int64{0, 4, 5, 7200} {
		w.enc.add(&callAt(at + seconds*1e9)[0]) // in no batch
		w.number++
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	k := rerun(t, m.Bytes())
	if n := len(k.Ticks); n < 5 || n > 9 || len(k.Calls) != 4 {
		t.Errorf("%d ticks, %d calls", n, len(k.Calls))
	}
	for i := range k.Ticks[1:] {
		if !k.Ticks[i+1].Time.After(k.Ticks[i].Time) && !k.Ticks[i+1].Final || k.Ticks[i+1].Seq != k.Ticks[i].Seq+1 {
			t.Errorf("tick %d at %v follows on %d at %v", k.Ticks[i+1].Seq, k.Ticks[i+1].Time, k.Ticks[i].Seq, k.Ticks[i].Time)
		}
	}
}

func callAt(start int64) []events.Call {
	return []events.Call{{Start: start, Duration: 1e6, OnCPU: 1e6, PID: 7, TID: 7, Weight: 1, Op: storetest.OpSync}}
}

// jsonOf returns the parts of a tick that JSON can encode.
func jsonOf(t *testing.T, x *tick.Tick) string {
	t.Helper()
	b, err := json.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
