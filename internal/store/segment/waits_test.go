package segment

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"ingero/internal/store/log"
	"ingero/internal/store/storetest"
	"ingero/pkg/events"
)

func waitCodecs(t testing.TB) (*waitEncoder, *waitDecoder) {
	t.Helper()
	e, err := newWaitEncoder()
	if err != nil {
		t.Fatal(err)
	}
	d, err := newWaitDecoder()
	if err != nil {
		t.Fatal(err)
	}
	return e, d
}

func encodeWaits(e *waitEncoder, waits []events.Wait, after []int) []byte {
	e.reset()
	for i := range waits {
		e.add(&waits[i], after[i])
	}
	return e.body(nil)
}

func TestWaitsSurvive(t *testing.T) {
	g := storetest.NewWaitGenerator(1)
	var odd []events.Wait
	for range 3000 {
		odd = append(odd, g.Odd())
	}
	blocked := events.Wait{PID: 7, TID: 8, Start: 1000, Duration: 50, State: events.WaitBlocked, CPU: 3}
	runnable := events.Wait{PID: 7, TID: 8, Start: 1050, Duration: 40, Taken: 40, State: events.WaitRunnable, CPU: 3}
	second := runnable
	second.Taken, second.Flags, second.Who = 10, events.WaitPrevious, events.Thread{PID: 1, TID: 2, Name: events.NameOf("x")}
	full := second
	copy(full.Who.Name[:], "sixteen bytes ..")
	full.Who.Name[3] = 0
	for name, waits := range map[string][]events.Wait{
		"zero":              make([]events.Wait, 3),
		"one":               {blocked},
		"job":               g.Waits(nil, frameWaitsMax/2, storetest.Began, time.Second),
		"odd":               odd,
		"mixed":             append(g.Waits(nil, 50, storetest.Began, time.Second), odd[:50]...),
		"back to back":      {blocked, runnable, second, full},
		"backwards":         {runnable, blocked, second, blocked},
		"name after zero":   {full, second},
		"negative duration": {{Start: 5, Duration: -9, Taken: -9}, {Start: 5, Duration: -9, Taken: -1}},
		"overflow":          {{Start: 1<<63 - 1, Duration: 1<<63 - 1}, {Start: -1 << 63, Duration: -1 << 63}},
	} {
		t.Run(name, func(t *testing.T) {
			e, d := waitCodecs(t)
			var after []int
			for i := range waits {
				after = append(after, i/3*2)
			}
			for range 2 { // the second pass reuses memory
				body := encodeWaits(e, waits, after)
				got, places, err := d.waits(nil, nil, body)
				if err != nil {
					t.Fatal(err)
				}
				storetest.SameWaits(t, waits, got)
				if !slices.Equal(after, places) {
					t.Errorf("places among the calls: %v, want %v", places, after)
				}
				n, first, last := span(body)
				for i := range waits {
					if waits[i].Start < first || waits[i].End() > last {
						t.Fatalf("wait %d lies outside [%d, %d]", i, first, last)
					}
				}
				if n != len(waits) {
					t.Errorf("span counts %d, want %d", n, len(waits))
				}
			}
		})
	}
}

// frameOf returns the waits of a quarter of a second, the content of one frame.
func frameOf(perSecond int) (waits []events.Wait, after []int) {
	g := storetest.NewWaitGenerator(4)
	waits = g.Waits(nil, perSecond/4, storetest.Began, time.Second/4)
	for i := range waits {
		after = append(after, i/8*50)
	}
	return waits, after
}

// A wait is small in a log, including its part of the frame's head and tables.
func TestWaitsAreSmall(t *testing.T) {
	e, _ := waitCodecs(t)
	for _, tt := range []struct {
		perSecond int
		most      float64 // bytes
	}{{30_000, 9}, {10_000, 10}, {1000, 13}, {300, 18}} {
		waits, after := frameOf(tt.perSecond)
		got := float64(log.HeadSize+len(encodeWaits(e, waits, after))) / float64(len(waits))
		t.Logf("%d a second: %.1f bytes", tt.perSecond, got)
		if got > tt.most {
			t.Errorf("%d waits a second: %.1f bytes each, want at most %v", tt.perSecond, got, tt.most)
		}
	}
}

func TestWaitEncoderDoesNotAllocate(t *testing.T) {
	e, _ := waitCodecs(t)
	waits, after := frameOf(20_000)
	var out []byte
	run := func() {
		e.reset()
		for i := range waits {
			e.add(&waits[i], after[i])
		}
		out = e.body(out[:0])
	}
	run()
	if n := testing.AllocsPerRun(20, run); n > 0 {
		t.Errorf("%v allocations a frame of %d waits, want none", n, len(waits))
	}
}

func FuzzWaits(f *testing.F) {
	e, d := waitCodecs(f)
	g := storetest.NewWaitGenerator(3)
	f.Add(encodeWaits(e, nil, nil))
	f.Add(encodeWaits(e, []events.Wait{g.Odd(), g.Odd(), g.Odd()}, []int{0, 4, 9}))
	few, after := frameOf(40)
	f.Add(encodeWaits(e, few, after))
	many, after := frameOf(2000)
	f.Add(encodeWaits(e, many, after))
	f.Fuzz(func(t *testing.T, body []byte) {
		span(body)
		waits, after, err := d.waits(nil, nil, body)
		if err != nil {
			if !errors.Is(err, log.ErrCorrupt) && !errors.Is(err, log.ErrVersion) {
				t.Errorf("error %v is of no kind", err)
			}
			if len(waits) != 0 || len(after) != 0 {
				t.Errorf("%d waits, %d places beside the error", len(waits), len(after))
			}
			return
		}
		if len(after) != len(waits) || !slices.IsSorted(after) {
			t.Fatalf("%d waits at %v", len(waits), after)
		}
		again, places, err := d.waits(nil, nil, encodeWaits(e, waits, after))
		if err != nil || !slices.Equal(waits, again) || !slices.Equal(after, places) {
			t.Errorf("a second trip changes the waits: %v", err)
		}
	})
}

func BenchmarkWaits(b *testing.B) {
	e, d := waitCodecs(b)
	for _, perSecond := range []int{30_000, 1000} {
		waits, after := frameOf(perSecond)
		var body []byte
		each := func(b *testing.B, f func()) {
			b.ReportAllocs()
			for b.Loop() {
				f()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(waits)), "ns/wait")
			b.ReportMetric(float64(log.HeadSize+len(body))/float64(len(waits)), "B/wait")
			b.ReportMetric(0, "ns/op")
		}
		b.Run(fmt.Sprint("encode/", perSecond), func(b *testing.B) {
			each(b, func() {
				e.reset()
				for i := range waits {
					e.add(&waits[i], after[i])
				}
				body = e.body(body[:0])
			})
		})
		b.Run(fmt.Sprint("decode/", perSecond), func(b *testing.B) {
			var got []events.Wait
			var places []int
			each(b, func() {
				var err error
				if got, places, err = d.waits(got[:0], places[:0], body); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}
