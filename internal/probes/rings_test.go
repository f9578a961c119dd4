package probes

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// papers has both rings in plain memory.
type papers struct{ calls, kept *paper }

func newPapers(size uint64) papers { return papers{newPaper(size), newPaper(size)} }

// keep writes a record of kept_ring as the kernel does, with a position of call_ring in front.
func (p papers) keep(after uint64, payload string, bits uint32) {
	p.kept.put(string(binary.NativeEndian.AppendUint64(nil, after))+payload, bits)
}

func (p papers) drain(limit int) (got []string) {
	rings{p.calls.Ring, p.kept.Ring}.Drain(limit, func(b []byte) { got = append(got, string(b)) })
	return got
}

func TestRingsDrain(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fill  func(papers)
		limit int
		want  []string
		next  []string // in the next round
	}{
		{name: "nothing", fill: func(papers) {}, limit: 9},
		{name: "calls alone", fill: func(p papers) { p.calls.put("a", 0); p.calls.put("b", 0) }, limit: 9, want: []string{"a", "b"}},
		{name: "kept alone", fill: func(p papers) { p.keep(0, "A", 0); p.keep(0, "B", 0) }, limit: 9, want: []string{"A", "B"}},
		{name: "in one order", fill: func(p papers) {
			p.keep(0, "A", 0)
			p.calls.put("b", 0)
			p.calls.put("c", 0)
			p.keep(p.calls.produced(), "D", 0)
			p.calls.put("e", 0)
		}, limit: 9, want: []string{"A", "b", "c", "D", "e"}},
		{name: "discarded are passed over", fill: func(p papers) {
			p.calls.put("a", ringDiscard)
			p.keep(p.calls.produced(), "B", ringDiscard)
			p.keep(p.calls.produced(), "C", 0)
			p.calls.put("d", 0)
		}, limit: 9, want: []string{"C", "d"}},
		{name: "one that is not complete holds back what may be behind it", fill: func(p papers) {
			p.calls.put("a", 0)
			p.keep(0, "B", ringBusy)
		}, limit: 9},
		{name: "one of calls that is not complete holds back what is kept", fill: func(p papers) {
			p.keep(0, "A", 0)
			p.calls.put("b", ringBusy)
			p.keep(p.calls.produced(), "C", 0)
		}, limit: 9, want: []string{"A"}},
		{name: "a later position does not hold back calls", fill: func(p papers) {
			p.calls.put("a", 0)
			p.keep(p.calls.produced()+16, "C", 0)
		}, limit: 9, want: []string{"a"}},
		{name: "limit", fill: func(p papers) {
			p.calls.put("a", 0)
			p.keep(p.calls.produced(), "B", 0)
			p.calls.put("c", 0)
		}, limit: 2, want: []string{"a", "B"}, next: []string{"c"}},
		{name: "limit within calls", fill: func(p papers) {
			p.calls.put("a", 0)
			p.calls.put("b", 0)
			p.keep(p.calls.produced(), "C", 0)
		}, limit: 1, want: []string{"a"}, next: []string{"b"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPapers(1024)
			tt.fill(p)
			if got := p.drain(tt.limit); !slices.Equal(got, tt.want) {
				t.Errorf("records %q, want %q", got, tt.want)
			}
			if got := p.drain(tt.limit); !slices.Equal(got, tt.next) {
				t.Errorf("then records %q, want %q", got, tt.next)
			}
		})
	}
}

// For any writes and reads, no record is lost. Those of a thread arrive in order, as do those of
// two threads of which one saw what the other did. A thread that writes to the kept ring can be
// preempted between reading the position and reserving space.
func TestRingsKeepTheOrder(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		p := newPapers(1 << 14)
		type event struct{ thread, n, after int } // after: number of complete records when it began
		var made, got []event
		read := func(limit int) {
			for _, s := range p.drain(limit) {
				var e event
				if n, err := fmt.Sscanf(s, "%d %d %d", &e.thread, &e.n, &e.after); n != 3 {
					t.Fatalf("record %q: %v", s, err)
				}
				got = append(got, e)
			}
		}
		const threads = 4
		var begun [threads]int // n + 1 of the record for which a thread has read the position
		var after [threads]uint64
		var saw [threads]int
		for range 400 {
			thread := rnd.IntN(threads)
			e := event{thread, len(made), len(made)}
			switch x := rnd.IntN(10); {
			case x == 0:
				read(1 + rnd.IntN(20))
			case begun[thread] > 0:
				e.after = saw[thread]
				p.keep(after[thread], fmt.Sprint(e.thread, " ", e.n, " ", e.after), 0)
				made, begun[thread] = append(made, e), 0
			case x < 5:
				begun[thread], after[thread], saw[thread] = 1, p.calls.produced(), len(made)
			default:
				p.calls.put(fmt.Sprint(e.thread, " ", e.n, " ", e.after), 0)
				made = append(made, e)
			}
		}
		for n := -1; n != len(got); { // until nothing is left
			n = len(got)
			read(7)
		}
		if len(got) != len(made) {
			t.Fatalf("seed %d: %d records of %d", seed, len(got), len(made))
		}
		place := make([]int, len(made))
		for i, e := range got {
			place[e.n] = i
		}
		for i, e := range got {
			for n := range e.after { // complete before this began
				if place[n] > i {
					t.Fatalf("seed %d: record %d comes after %d, which was made when it was there", seed, n, e.n)
				}
			}
		}
	}
}
