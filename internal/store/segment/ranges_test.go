package segment

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// someRanges returns NVTX calls of all kinds.
func someRanges(n int) (out []tick.Range) {
	r := rand.New(rand.NewPCG(1, 2))
	at := int64(1_800_000_000e9)
	for range n {
		at += r.Int64N(1e6) - 100
		x := tick.Range{Time: at, PID: r.Uint32N(3), TID: r.Uint32N(9), Op: events.Op(0x0701 + r.UintN(12)), Flags: tick.RangeFlags(r.UintN(8)), Lost: r.Uint32N(3),
			ID: r.Uint64(), Domain: r.Uint64() >> r.UintN(64)}
		for _, v := range rangeTimes(&x) {
			*v = r.Uint64() >> r.UintN(64)
		}
		for x.Length = uint8(r.UintN(tick.MaxRangeName + 1)); x.Length > 9; {
			x.Length /= 2
		}
		for i := range x.Name[:x.Length] {
			x.Name[i] = byte(1 + r.UintN(255))
		}
		out = append(out, x)
	}
	out[0].Length = uint8(copy(out[0].Name[:], make([]byte, tick.MaxRangeName)))
	return out
}

// Ranges are read back as written, in the original batches.
func TestRangeFrames(t *testing.T) {
	m, w := beginLog(t, Head{})
	want := someRanges(2*frameRangesMax + 5)
	w.Add(&tick.Batch{Ranges: want[:7]})
	w.Add(&tick.Batch{Ranges: want[7:], Calls: []events.Call{{Op: 0x0101, Start: want[0].Time, Duration: 5, Weight: 1}}})
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	r := openReplay(t, m.Bytes(), ReplayOptions{})
	var got []tick.Range
	for i := range 2 {
		var b tick.Batch
		if _, err := r.Poll(&b); err != nil {
			t.Fatal(err)
		}
		if i == 0 && len(b.Ranges) != 7 || len(b.Calls) != i {
			t.Errorf("batch %d: %d ranges, %d calls", i, len(b.Ranges), len(b.Calls))
		}
		got = append(got, b.Ranges...)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	t.Logf("%d bytes each", m.Len()/len(want))
}

func FuzzRanges(f *testing.F) {
	enc, dec := codecs(f)
	f.Add(enc.column(nil, appendRanges(nil, someRanges(40))))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := readRanges(b, dec)
		if err != nil {
			return
		}
		again, err := readRanges(enc.column(nil, appendRanges(nil, list)), dec)
		if d := cmp.Diff(list, again); err != nil || d != "" {
			t.Fatalf("%v\n-first +again:\n%s", err, d)
		}
	})
}
