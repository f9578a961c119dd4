package segment

import (
	"errors"
	"slices"
	"testing"

	"ingero/internal/store/log"
	"ingero/internal/store/storetest"
	"ingero/pkg/events"
)

func codecs(t testing.TB) (*encoder, *decoder) {
	t.Helper()
	e, err := newEncoder()
	if err != nil {
		t.Fatal(err)
	}
	d, err := newDecoder()
	if err != nil {
		t.Fatal(err)
	}
	return e, d
}

func encode(e *encoder, calls []events.Call) []byte {
	e.reset()
	for i := range calls {
		e.add(&calls[i])
	}
	return e.body(nil)
}

func TestCallsSurvive(t *testing.T) {
	g := storetest.NewGenerator(1)
	inherited := events.Call{Op: 1, Flags: events.CallInherited, Args: [4]uint64{1, 2, 3, 4}}
	partial := events.Call{Op: 1, Duration: 100, Runnable: 30, Blocked: 70, Flags: events.CallLedgerPartial, Gap: 50, GapBlocked: 50}
	var odd, mixed []events.Call
	for range 3000 {
		odd = append(odd, g.Odd())
	}
	mixed = append(g.Calls(nil, 50), odd[:50]...)
	for name, calls := range map[string][]events.Call{
		"none":             {},
		"zero":             make([]events.Call, 3),
		"one":              g.Calls(nil, 1)[:1],
		"loop":             g.Calls(nil, frameCallsMax)[:frameCallsMax],
		"odd":              odd,
		"mixed":            mixed,
		"inherited, alone": {inherited},
		"inherited, other": {{Op: 2, Args: [4]uint64{9}}, inherited, inherited},
		"partial":          {partial, partial},
		"does not add up":  {{Duration: 10, OnCPU: 3, Blocked: 3}, {Gap: 10, GapRunnable: 11}},
		"throttled": {{Duration: 10, OnCPU: 3, Runnable: 2, Throttled: 4, Blocked: 1, Gap: 9, GapOnCPU: 2, GapThrottled: 7},
			{Duration: 10, OnCPU: 4, Throttled: 4}, {Throttled: -4}, {GapThrottled: 4}},
		"negative duration": {{Duration: -5, OnCPU: -5}},
		"overflow":          {{Duration: -1 << 63, OnCPU: 1, Runnable: 1<<63 - 1}},
	} {
		t.Run(name, func(t *testing.T) {
			e, d := codecs(t)
			for range 2 { // the second pass reuses memory
				body := encode(e, calls)
				got, err := d.calls(nil, body)
				if err != nil {
					t.Fatal(err)
				}
				storetest.SameCalls(t, calls, got)
				n, first, last := span(body)
				for i := range calls {
					if calls[i].Start < first || calls[i].End() > last {
						t.Fatalf("call %d lies outside [%d, %d]", i, first, last)
					}
				}
				if n != len(calls) {
					t.Errorf("span counts %d, want %d", n, len(calls))
				}
			}
		})
	}
}

func TestEncoderDoesNotAllocate(t *testing.T) {
	e, _ := codecs(t)
	calls := storetest.NewGenerator(2).Calls(nil, frameCallsMax)[:frameCallsMax]
	var out []byte
	run := func() {
		e.reset()
		for i := range calls {
			e.add(&calls[i])
		}
		out = e.body(out[:0])
	}
	run()
	if n := testing.AllocsPerRun(20, run); n > 0 {
		t.Errorf("%v allocations a frame of %d calls, want none", n, len(calls))
	}
}

func FuzzCalls(f *testing.F) {
	e, d := codecs(f)
	g := storetest.NewGenerator(3)
	f.Add(encode(e, nil))
	f.Add(encode(e, g.Calls(nil, 3)))
	f.Add(encode(e, g.Calls(nil, 300)))
	f.Add(encode(e, []events.Call{g.Odd(), g.Odd(), g.Odd()}))
	f.Fuzz(func(t *testing.T, body []byte) {
		span(body)
		calls, err := d.calls(nil, body)
		if err != nil {
			if !errors.Is(err, log.ErrCorrupt) && !errors.Is(err, log.ErrVersion) {
				t.Errorf("error %v is of no kind", err)
			}
			if len(calls) != 0 {
				t.Errorf("%d calls beside the error", len(calls))
			}
			return
		}
		again, err := d.calls(nil, encode(e, calls))
		if err != nil || !slices.Equal(calls, again) {
			t.Errorf("a second trip changes the calls: %v", err)
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	e, _ := codecs(b)
	calls := storetest.NewGenerator(4).Calls(nil, frameCallsMax)[:frameCallsMax]
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		e.reset()
		for i := range calls {
			e.add(&calls[i])
		}
		out = e.body(out[:0])
	}
	b.ReportMetric(float64(b.N)*frameCallsMax/b.Elapsed().Seconds()/1e6, "Mcalls/s")
	b.ReportMetric(float64(len(out))/frameCallsMax, "B/call")
	b.ReportMetric(0, "ns/op")
}

func BenchmarkDecode(b *testing.B) {
	e, d := codecs(b)
	body := encode(e, storetest.NewGenerator(4).Calls(nil, frameCallsMax)[:frameCallsMax])
	var calls []events.Call
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if calls, err = d.calls(calls[:0], body); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*frameCallsMax/b.Elapsed().Seconds()/1e6, "Mcalls/s")
	b.ReportMetric(0, "ns/op")
}
