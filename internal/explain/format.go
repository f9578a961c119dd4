package explain

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// unknown is the text of an unmeasured value.
const unknown = "-"

// Duration formats nanoseconds with three significant digits: "742 ns", "15.1 ms", "1.41 s", from
// two minutes on "2 min 3 s", then hours and days.
func Duration(ns int64) string {
	if ns < 0 {
		if ns == math.MinInt64 {
			ns++
		}
		return "-" + Duration(-ns)
	}
	const minute = 60
	s := (min(ns, math.MaxInt64-5e8) + 5e8) / 1e9 // rounded to the displayed unit
	switch {
	case s < 2*minute:
		return short(ns)
	case s < 2*60*minute:
		return fmt.Sprintf("%d min %d s", s/minute, s%minute)
	}
	m := (s + 30) / minute
	if m < 48*60 {
		return fmt.Sprintf("%d h %d min", m/60, m%60)
	}
	h := (m + 30) / 60
	return fmt.Sprintf("%d d %d h", h/24, h%24)
}

// short is Duration in at most eight characters, for columns, always with one unit.
func short(ns int64) string { return string(appendShort(nil, ns)) }

// units are the units of a non-negative duration.
var units = [...]struct {
	ns   float64
	top  float64 // first value that uses the next unit
	name string
}{
	{1e3, 999.5, " us"}, {1e6, 999.5, " ms"}, {1e9, 119.5, " s"},
	{60e9, 119.5, " min"}, {3600e9, 47.95, " h"}, {86400e9, math.Inf(1), " d"},
}

func appendShort(b []byte, ns int64) []byte {
	if ns == 0 {
		return append(b, "0 s"...)
	}
	if ns < 1000 {
		return append(strconv.AppendInt(b, ns, 10), " ns"...)
	}
	for i := range units {
		if v := float64(ns) / units[i].ns; v < units[i].top {
			return append(appendSig3(b, v), units[i].name...)
		}
	}
	return b
}

// appendDuration is Duration without allocation, for non-negative values.
func appendDuration(b []byte, ns int64) []byte {
	if ns >= 0 && ns < 119e9 {
		return appendShort(b, ns)
	}
	return append(b, Duration(ns)...)
}

// appendSig3 formats a number of at least 1 with three significant digits.
func appendSig3(b []byte, v float64) []byte {
	digits := 0
	switch {
	case v < 9.995:
		digits = 2
	case v < 99.95:
		digits = 1
	}
	return strconv.AppendFloat(b, v, 'f', digits, 64)
}

// ns64 converts a sum of nanoseconds for Duration.
func ns64(ns uint64) int64 { return int64(min(ns, math.MaxInt64)) }

// Count formats a number with thousands separators: "1,204,331".
func Count(n uint64) string {
	s := strconv.FormatUint(n, 10)
	var b strings.Builder
	for i, digit := range []byte(s) {
		if i > 0 && (len(s)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteByte(digit)
	}
	return b.String()
}

// plural returns a count with its noun: "1 call", "3 calls", "2 launches".
func plural(n uint64, noun string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(noun, "s") || strings.HasSuffix(noun, "ch"):
		noun += "es"
	default:
		noun += "s"
	}
	return Count(n) + " " + noun
}

// Bytes formats a size in units of 1,024 with three significant digits: "512 B", "21.3 MiB".
func Bytes(n int64) string {
	switch {
	case n < 0:
		return "-" + Bytes(-max(n, -math.MaxInt64))
	case n < 1024:
		return strconv.FormatInt(n, 10) + " B"
	}
	v := float64(n)
	for _, unit := range []string{" KiB", " MiB", " GiB", " TiB", " PiB"} {
		if v /= 1024; v < 999.5 {
			return string(appendSig3(nil, max(v, 1))) + unit
		}
	}
	return string(appendSig3(nil, v/1024)) + " EiB"
}

// Percent formats a share (1 is all) as "2.4 %". A nonzero share below half of the last digit is
// "<0.1 %".
func Percent(share float64) string {
	switch {
	case math.IsNaN(share) || math.IsInf(share, 0):
		return unknown
	case share > 0 && share < 0.0005:
		return "<0.1 %"
	}
	return strconv.FormatFloat(100*share, 'f', 1, 64) + " %"
}

// permille divides 1,000 among parts by the largest remainder, so that the displayed tenths of a
// percent add up to 100 %. If the sum is zero all are 0.
func permille(parts []uint64) []int {
	out := make([]int, len(parts))
	var sum uint64
	for _, p := range parts {
		var carry uint64
		if sum, carry = bits.Add64(sum, p, 0); carry != 0 {
			return permille(halved(parts))
		}
	}
	if sum == 0 {
		return out
	}
	order := make([]int, len(parts))
	rest := make([]uint64, len(parts))
	left := 1000
	for i, p := range parts {
		hi, lo := bits.Mul64(p, 1000)
		q, r := bits.Div64(hi%sum, lo, sum) // p <= sum, so hi < sum
		out[i], rest[i], order[i] = int(q), r, i
		left -= int(q)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rest[b], rest[a]) })
	for _, i := range order[:left] {
		out[i]++
	}
	return out
}

func halved(parts []uint64) []uint64 {
	out := make([]uint64, len(parts))
	for i, p := range parts {
		out[i] = p / uint64(2*len(parts))
	}
	return out
}

// tenths formats tenths of a percent: 24 is "2.4"; a small nonzero share is "<0.1".
func tenths(permille int, of uint64) string {
	if permille == 0 && of > 0 {
		return "<0.1"
	}
	return strconv.Itoa(permille/10) + "." + strconv.Itoa(permille%10)
}

// percentText formats a percentage that has one decimal.
func percentText(percent float64, of uint64) string { return tenths(int(math.Round(10*percent)), of) }

// clean makes a name from the traced machine safe to show: a control character, which the terminal
// could interpret, becomes a question mark.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// processName names a process: "python3 (4821)".
func processName(comm string, pid uint32) string {
	if comm == "" {
		comm = "process"
	}
	return clean(comm) + " (" + strconv.FormatUint(uint64(pid), 10) + ")"
}

// cells returns the number of columns of a text on a terminal.
func cells(s string) int {
	n := 0
	for _, r := range s {
		n += cellsOf(r)
	}
	return n
}

// cellsOf approximates Unicode's East Asian width: runes from the first Hangul letter on, which
// precedes all ideographs and emoji, are wide.
func cellsOf(r rune) int {
	switch {
	case unicode.Is(unicode.Mn, r):
		return 0
	case r >= 0x1100 && r < 0x1200, r >= 0x2e80 && r < 0xa4d0, r >= 0xac00 && r < 0xd7b0,
		r >= 0xf900 && r < 0xfb00, r >= 0xfe30 && r < 0xfe70, r >= 0xff00 && r < 0xff61, r >= 0x1f300:
		return 2
	}
	return 1
}

// cut truncates a text to a number of columns.
func cut(s string, width int) string {
	if cells(s) <= width {
		return s
	}
	n := 0
	for i, r := range s {
		if n += cellsOf(r); n > width-1 {
			if width < 1 {
				return ""
			}
			return s[:i] + "…"
		}
	}
	return s
}

// alignLeft and alignRight pad a text to a number of columns.
func alignLeft(s string, width int) string  { return s + strings.Repeat(" ", max(0, width-cells(s))) }
func alignRight(s string, width int) string { return strings.Repeat(" ", max(0, width-cells(s))) + s }

// wrap breaks a text at spaces into lines of at most width columns. The first line keeps its
// leading spaces; the others start with indent. A number and its unit stay together.
func wrap(text, indent string, width int) []string {
	lines := wrapWords(text, indent, width)
	for i, l := range lines {
		lines[i] = cut(l, width)
	}
	return lines
}

// wrapWords is wrap, but leaves words wider than a line whole.
func wrapWords(text, indent string, width int) []string {
	var lines []string
	line, empty := text[:len(text)-len(strings.TrimLeft(text, " "))], true
	for _, word := range glued(strings.Fields(text)) {
		switch {
		case empty:
			line += word
		case cells(line)+1+cells(word) > width:
			lines = append(lines, line)
			line = indent + word
		default:
			line += " " + word
		}
		empty = false
	}
	return append(lines, line)
}

// glued joins units to their numbers.
func glued(words []string) []string {
	out := words[:0]
	for _, word := range words {
		switch strings.TrimRight(word, ".,;:)") {
		case "ns", "us", "ms", "s", "min", "h", "d", "%", "KiB", "MiB", "GiB", "TiB":
			if n := len(out); n > 0 && strings.TrimRight(out[n-1], "0123456789") != out[n-1] {
				out[n-1] += " " + word
				continue
			}
		}
		out = append(out, word)
	}
	return out
}
