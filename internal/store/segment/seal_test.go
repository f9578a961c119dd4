package segment

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"

	"ingero/internal/store/log"
	"ingero/internal/store/storetest"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// sealed seals a log in memory.
func sealed(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := Seal(&out, bytes.NewReader(b), int64(len(b))); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// order returns everything in a log, in order.
func order(t *testing.T, b []byte) (out []any) {
	t.Helper()
	l := openLog(t, b)
	var e Entry
	err := l.Next(&e)
	for ; err == nil; err = l.Next(&e) {
		w := 0
		for i := range e.Calls {
			for ; w < len(e.Waits) && e.After[w] <= i; w++ {
				out = append(out, e.Waits[w])
			}
			out = append(out, struct {
				events.Call
				number uint64
			}{e.Calls[i], e.First + uint64(i)})
		}
		for ; w < len(e.Waits); w++ {
			out = append(out, e.Waits[w])
		}
		for _, l := range e.Lives {
			out = append(out, l)
		}
		switch {
		case e.Tick != nil:
			out = append(out, fmt.Sprintf("%+v %+v", e.Tick.Seq, e.Tick.Threads))
			for i := range e.Tick.Ops {
				out = append(out, e.Tick.Ops[i].Sum)
			}
		case e.Process != nil:
			out = append(out, *e.Process)
		case e.Library != nil:
			out = append(out, *e.Library)
		case e.Report != nil:
			out = append(out, *e.Report)
		case e.End != nil:
			out = append(out, *e.End)
		}
	}
	if !errors.Is(err, io.EOF) || l.Torn() != 0 {
		t.Fatalf("error %v, %d torn", err, l.Torn())
	}
	return out
}

// recordOften writes a log whose flushes have few calls each.
func recordOften(t testing.TB, flushes, calls int) []byte {
	t.Helper()
	m, w := beginLog(t, Head{Seq: 3, First: 1000})
	g, k := storetest.NewGenerator(5), storetest.NewKernel()
	for i := range flushes {
		at := storetest.Began.Add(time.Duration(i) * 250 * time.Millisecond)
		b := tick.Batch{Calls: g.Calls(nil, calls), Waits: g.Waiting.Waits(nil, (i%3)*calls/10, at, time.Second)}
		if i%7 == 0 { // only waits
			b.Calls = nil
		}
		k.See(b.Calls)
		w.Add(&b)
		var err error
		if i%4 == 3 {
			err = w.Tick(k.Tick(uint64(i), at, i+1 >= flushes), 0)
		}
		if err = errors.Join(err, w.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	return m.Bytes()
}

// A sealed segment has the same content in the same order, and takes less space.
func TestSealKeepsEverything(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		log     []byte
		smaller float64 // at most this part of the size
	}{
		{"few", recordOften(t, 9, 3), 1.1},
		{"small frames", recordOften(t, 200, 100), 0.6},
		{"middling frames", recordOften(t, 20, 5000), 1},
		{"large frames", record(t, 2, 20_000).bytes, 1.01},
		{"ticks alone", recordOften(t, 100, 0), 1.2},
		{"more than a block among the calls", recordOften(t, 4400, 1), 1.1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := sealed(t, tt.log)
			want, got := order(t, tt.log), order(t, out)
			if !slices.Equal(want, got) {
				t.Errorf("%d things, want %d: -want +got:\n%.3000s", len(got), len(want), diff.Diff(want, got, diff.AllowUnexported()))
			}
			if len(out) > int(float64(len(tt.log))*tt.smaller) {
				t.Errorf("%d bytes are sealed as %d", len(tt.log), len(out))
			}
		})
	}
}

// The index finds the calls of a window, or from a number on, that a full scan finds.
func TestSealedCallsOnly(t *testing.T) {
	hot := recordOften(t, 60, 3000)
	iseg := sealed(t, hot)
	var all []any
	for _, x := range order(t, hot) {
		if c, ok := x.(struct {
			events.Call
			number uint64
		}); ok {
			all = append(all, c)
		}
	}
	from, to := storetest.Began.Add(2*time.Second).UnixNano(), storetest.Began.Add(4*time.Second).UnixNano()
	for name, after := range map[string]uint64{"all": 0, "the later ones": 1000 + uint64(len(all)/2)} {
		t.Run(name, func(t *testing.T) {
			read := func(b []byte) (found []uint64, decoded int) {
				l := openLog(t, b)
				l.Window(from, to)
				l.CallsOnly(after)
				var e Entry
				err := l.Next(&e)
				for ; err == nil; err = l.Next(&e) {
					decoded += len(e.Calls)
					for i := range e.Calls {
						if n := e.First + uint64(i); n >= after && e.Calls[i].Start >= from && e.Calls[i].Start < to {
							found = append(found, n)
						}
					}
				}
				if !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
				return found, decoded
			}
			want, _ := read(hot)
			got, decoded := read(iseg)
			if !slices.Equal(want, got) || len(got) == 0 {
				t.Errorf("%d calls by the index, %d without", len(got), len(want))
			}
			if decoded > len(all)*3/4 {
				t.Errorf("%d of %d calls were decoded to find %d", decoded, len(all), len(got))
			}
		})
	}
}

// Of a truncated or changed sealed segment, everything before the damage is readable, and
// everything after a changed frame too.
func TestSealedAndThenDamaged(t *testing.T) {
	t.Parallel()
	whole := sealed(t, recordOften(t, 15, 30))
	want, _, err := readAll(whole)
	if err != nil {
		t.Fatal(err)
	}
	l := openLog(t, whole)
	for n := 0; n < len(whole); n++ {
		if n > 500 && n < len(whole)-500 {
			n += 6 // every byte at both ends, which have the heads and the index
		}
		got, _, err := readAll(whole[:n])
		if err != nil && !errors.Is(err, log.ErrNotLog) {
			t.Fatalf("cut at %d: %v", n, err)
		}
		if !slices.Equal(got.calls, want.calls[:len(got.calls)]) {
			t.Fatalf("cut at %d: calls changed", n)
		}
	}
	first := l.seg.index.calls[0]
	b := bytes.Clone(whole)
	b[first.at+log.HeadSize+20] ^= 1
	l = openLog(t, b)
	var e Entry
	bad, calls, ticks := 0, 0, 0
	for err = l.Next(&e); !errors.Is(err, io.EOF); err = l.Next(&e) {
		if err != nil {
			bad++
			if !errors.Is(err, log.ErrCorrupt) {
				t.Fatal(err)
			}
		}
		if calls += len(e.Calls); e.Tick != nil {
			ticks++
		}
	}
	if bad != 1 || calls != len(want.calls)-first.n || ticks != len(want.ticks) {
		t.Errorf("%d times damaged, %d calls, %d ticks, want 1, %d, %d", bad, calls, ticks, len(want.calls)-first.n, len(want.ticks))
	}
}

// A torn or damaged segment is not sealed, since that would hide the loss.
func TestSealRefusesDamage(t *testing.T) {
	b := recordOften(t, 3, 50)
	changed := bytes.Clone(b)
	changed[len(b)/2] ^= 4
	for name, tt := range map[string]struct {
		log  []byte
		want error
	}{"torn": {b[:len(b)-3], errTorn}, "damaged": {changed, log.ErrCorrupt}, "sealed": {sealed(t, b), log.ErrCorrupt}} {
		if err := Seal(io.Discard, bytes.NewReader(tt.log), int64(len(tt.log))); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
}

func TestParseSegment(t *testing.T) {
	for name, want := range map[string]Info{
		"gpu-7-20261121T144100-00000012-000003.ilog": {Session: "gpu-7-20261121T144100-00000012", Seq: 3},
		"gpu-7-20261121T144100-00000012-000003.iseg": {Session: "gpu-7-20261121T144100-00000012", Seq: 3, Sealed: true},
		"gpu-7-20261121T144100-00000012.ilog":        {Session: "gpu-7-20261121T144100-00000012"},
		"gpu-7-20261121T144100-12345678.ilog":        {Session: "gpu-7-20261121T144100-12345678"},
		"gpu-7-0000012.ilog":                         {Session: "gpu-7-0000012"}, // no name of a segment
		"writer":                                     {},
		"a-000001.iseg.tmp":                          {},
	} {
		got, ok := Parse(name)
		if want.Name = name; ok != (want.Session != "") || ok && got != want {
			t.Errorf("%s: %+v %v", name, got, ok)
		}
	}
	for _, session := range []string{"s", "gpu-7", "gpu-7-20261121T144100-00000012", "gpu-7-20261121T144100-12345678"} {
		for _, seq := range []int{0, 12, 999_999, 1_000_000, 9_999_999, 10_000_000, 99_999_999, 123_456_789} {
			for _, sealed := range []bool{false, true} {
				want := Info{Name: Name(session, seq, sealed), Session: session, Seq: seq, Sealed: sealed}
				if got, ok := Parse(want.Name); !ok || got != want {
					t.Errorf("%s: %+v %v", want.Name, got, ok)
				}
			}
		}
	}
}
