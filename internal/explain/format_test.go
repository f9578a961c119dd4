package explain

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestDuration(t *testing.T) {
	for _, tt := range []struct {
		ns   int64
		want string
	}{
		{0, "0 s"}, {1, "1 ns"}, {742, "742 ns"}, {999, "999 ns"}, {1000, "1.00 us"}, {1005, "1.00 us"}, {9_994, "9.99 us"},
		{9_995, "10.0 us"}, {99_949, "99.9 us"}, {99_950, "100 us"}, {999_499, "999 us"}, {999_500, "1.00 ms"},
		{15_100_000, "15.1 ms"}, {999_500_000, "1.00 s"}, {1_412_000_000, "1.41 s"}, {60e9, "60.0 s"}, {119_400_000_000, "119 s"},
		{119_500_000_000, "2 min 0 s"}, {123e9, "2 min 3 s"}, {3600e9, "60 min 0 s"}, {7199e9, "119 min 59 s"}, {7200e9, "2 h 0 min"},
		{86400e9, "24 h 0 min"}, {2 * 86400e9, "2 d 0 h"}, {100*86400e9 + 3600e9, "100 d 1 h"},
		{-1500, "-1.50 us"}, {math.MaxInt64, "106752 d 0 h"}, {math.MinInt64, "-106752 d 0 h"}, {math.MaxInt64 - 1, "106752 d 0 h"},
	} {
		if got := Duration(tt.ns); got != tt.want {
			t.Errorf("Duration(%d) = %q, want %q", tt.ns, got, tt.want)
		}
		if got := string(appendDuration(nil, tt.ns)); got != tt.want {
			t.Errorf("appendDuration(%d) = %q, want %q", tt.ns, got, tt.want)
		}
	}
}

func TestShort(t *testing.T) {
	for ns, want := range map[int64]string{
		742: "742 ns", 119_499_999_999: "119 s", 119_500_000_000: "1.99 min", 3600e9: "60.0 min", 2 * 3600e9: "2.00 h", 3 * 86400e9: "3.00 d",
	} {
		if got := short(ns); got != want {
			t.Errorf("short(%d) = %q, want %q", ns, got, want)
		}
	}
}

// The text of a duration is within half a unit of the third digit, fits its column, and grows with
// the duration.
func FuzzDuration(f *testing.F) {
	for _, ns := range []int64{0, 999, 1000, 999_499, 999_500, 119_499_999_999, 119_500_000_000, 47*3600e9 + 3599e9, math.MaxInt64} {
		f.Add(ns)
	}
	units := map[string]float64{"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9, "min": 60e9, "h": 3600e9, "d": 86400e9}
	f.Fuzz(func(t *testing.T, ns int64) {
		if ns < 0 {
			if got := Duration(ns); got[0] != '-' {
				t.Errorf("Duration(%d) = %q", ns, got)
			}
			return
		}
		s := short(ns)
		number, unit, _ := strings.Cut(s, " ")
		v, err := strconv.ParseFloat(number, 64)
		if err != nil || units[unit] == 0 {
			t.Fatalf("short(%d) = %q", ns, s)
		}
		if got := v * units[unit]; math.Abs(got-float64(ns)) > float64(ns)/199 {
			t.Errorf("short(%d) = %q, %g ns away", ns, s, got-float64(ns))
		}
		if ns < 1000*86400e9 && len(s) > 8 {
			t.Errorf("short(%d) = %q is too long", ns, s)
		}
		var total float64
		fields := strings.Fields(Duration(ns))
		for i := 0; i+1 < len(fields); i += 2 {
			v, _ := strconv.ParseFloat(fields[i], 64)
			total += v * units[fields[i+1]]
		}
		if math.Abs(total-float64(ns)) > float64(ns)/60 {
			t.Errorf("Duration(%d) = %q, which is %g ns", ns, Duration(ns), total)
		}
	})
}

func TestCount(t *testing.T) {
	for n, want := range map[uint64]string{0: "0", 999: "999", 1000: "1,000", 1204331: "1,204,331", math.MaxUint64: "18,446,744,073,709,551,615"} {
		if got := Count(n); got != want {
			t.Errorf("Count(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestPlural(t *testing.T) {
	for _, tt := range []struct {
		n          uint64
		noun, want string
	}{{1, "call", "1 call"}, {0, "call", "0 calls"}, {2, "process", "2 processes"}, {2000, "launch", "2,000 launches"}} {
		if got := plural(tt.n, tt.noun); got != tt.want {
			t.Errorf("plural = %q, want %q", got, tt.want)
		}
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.00 KiB", 22 << 20: "22.0 MiB", 12<<30 + 300<<20: "12.3 GiB", 1023 << 10: "1.00 MiB", 1 << 50: "1.00 PiB",
		math.MaxInt64: "8.00 EiB", -2048: "-2.00 KiB", math.MinInt64: "-8.00 EiB",
	} {
		if got := Bytes(n); got != want {
			t.Errorf("Bytes(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestPercent(t *testing.T) {
	for v, want := range map[float64]string{0: "0.0 %", 0.024: "2.4 %", 1: "100.0 %", 0.0001: "<0.1 %", 0.0005: "0.1 %", math.Inf(1): "-"} {
		if got := Percent(v); got != want {
			t.Errorf("Percent(%v) = %q, want %q", v, got, want)
		}
	}
	if got := Percent(math.NaN()); got != "-" {
		t.Errorf("Percent(NaN) = %q", got)
	}
}

func TestPermille(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		parts := make([]uint64, 1+r.IntN(8))
		var sum float64
		for i := range parts {
			parts[i] = r.Uint64() >> r.IntN(64) * uint64(r.IntN(2))
			sum += float64(parts[i])
		}
		total := 0
		for i, got := range permille(parts) {
			total += got
			if sum > 0 && math.Abs(float64(got)-1000*float64(parts[i])/sum) > 1.000001 {
				t.Fatalf("permille(%v)[%d] = %d", parts, i, got)
			}
		}
		if want := 1000; total != want && sum > 0 || total != 0 && sum == 0 {
			t.Fatalf("permille(%v) adds up to %d", parts, total)
		}
	}
	third := permille([]uint64{1, 1, 1})
	if third[0] != 334 || third[1] != 333 || third[2] != 333 {
		t.Errorf("thirds = %v", third)
	}
}

// A process name can neither control the terminal nor exceed the width.
func FuzzNames(f *testing.F) {
	f.Add("python3", 20)
	f.Add("a\x1b[31m\x9b", 3)
	f.Add("訓練ループ", 5)
	f.Add("e\u0301\u202e\xff", 1)
	f.Fuzz(func(t *testing.T, name string, width int) {
		width = min(max(width, 1), 100)
		got := clean(name)
		if !utf8.ValidString(got) {
			t.Errorf("clean(%q) = %q is no UTF-8", name, got)
		}
		for _, r := range got {
			if !unicode.IsPrint(r) {
				t.Errorf("clean(%q) = %q has %U", name, got, r)
			}
		}
		if c := cut(got, width); cells(c) > width {
			t.Errorf("cut(%q, %d) = %q: %d columns", got, width, c, cells(c))
		}
		for _, l := range wrap(got+" "+got, "  ", width) {
			if cells(l) > width {
				t.Errorf("wrap to %d: %q: %d columns", width, l, cells(l))
			}
		}
	})
}

func TestWrap(t *testing.T) {
	got := strings.Join(wrap("  the first line  and the others", "    ", 16), "|")
	if want := "  the first line|    and the|    others"; got != want {
		t.Errorf("wrap = %q, want %q", got, want)
	}
	if got := wrap("", "", 10); len(got) != 1 || got[0] != "" {
		t.Errorf("wrap of nothing = %q", got)
	}
}
