package unwind

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"ingero/internal/testkit"
)

// readelfRow is a row of readelf's output, valid from an address on.
type readelfRow struct {
	pc   uint64
	want Rule
}

// readelf returns binutils' reading of a file's .eh_frame, as rules.
func readelf(t *testing.T, path string) (rows []readelfRow) {
	t.Helper()
	testkit.NeedTool(t, "readelf")
	cmd := exec.Command("readelf", "--debug-dump=frames-interp,no-follow-links", path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var columns []string
	signal := map[string]bool{} // CIEs
	expect, function := KindNone, false
	for s := bufio.NewScanner(out); s.Scan(); {
		f := strings.Fields(s.Text())
		switch {
		case len(f) > 4 && f[3] == "CIE":
			signal[f[0]] = strings.Contains(f[4], "S")
			columns, function = nil, false
		case len(f) > 4 && f[3] == "FDE":
			function, expect = true, KindNone
			if signal[strings.TrimPrefix(f[4], "cie=")] {
				expect = KindSignal
			}
			columns = nil
		case len(f) > 1 && f[0] == "LOC" && function:
			columns = f[1:]
		case len(f) == len(columns)+1 && columns != nil && len(f[0]) == 16:
			pc, err := strconv.ParseUint(f[0], 16, 64)
			if err != nil {
				t.Fatal(err)
			}
			r := ruleOf(columns, f[1:])
			if expect == KindSignal {
				r = Rule{Kind: KindSignal}
			}
			rows = append(rows, readelfRow{pc, r})
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%s: %v", cmd, err)
	}
	return rows
}

// ruleOf converts readelf's columns to a rule. readelf does not show expressions: they become
// KindNone.
func ruleOf(columns, values []string) Rule {
	r := Rule{}
	for i, c := range columns {
		v := values[i]
		switch c {
		case "CFA":
			if reg, off, ok := strings.Cut(v, "+"); ok {
				r.CFA = offset(off)
				r.Kind = map[string]Kind{"rsp": KindSP, "rbp": KindFP}[reg]
			}
		case "rbp":
			if off, ok := strings.CutPrefix(v, "c"); ok {
				r.FP = offset(off)
			} else if v != "u" && v != "s" {
				return Rule{}
			}
		case "ra":
			if v == "u" {
				return Rule{Kind: KindEnd}
			}
			off, ok := strings.CutPrefix(v, "c")
			if !ok {
				return Rule{}
			}
			r.RA = offset(off)
		}
	}
	if r.Kind == KindNone {
		return Rule{}
	}
	return r
}

func offset(s string) int32 {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil {
		panic(fmt.Sprintf("readelf wrote %q", s))
	}
	return int32(n)
}

// expression reports whether a rule comes from an expression, which readelf does not show.
func expression(k Kind) bool {
	return k == KindSPDeref || k == KindFPDeref || k == KindPLT
}

var libraries = []string{"/lib/*-linux-gnu/libc.so.6", "/lib*/ld-linux-*.so.*", "/usr/lib/*-linux-gnu/libstdc++.so.6", "/lib/*-linux-gnu/libm.so.6", "/usr/bin/bash"}

// Our tables of real libraries equal those of binutils, at the first and the last address of each
// row.
func TestAgainstReadelf(t *testing.T) {
	for _, pattern := range libraries {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Logf("no %s here", pattern)
			continue
		}
		t.Run(filepath.Base(found[0]), func(t *testing.T) { againstReadelf(t, found[0]) })
	}
}

func againstReadelf(t *testing.T, path string) {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	im, err := Open(f)
	if err != nil {
		t.Fatal(err)
	}
	rules := NewRules()
	table, err := Build(f, im, rules)
	if err != nil {
		t.Fatal(err)
	}
	rows := readelf(t, path)
	if len(rows) < 100 {
		t.Fatalf("readelf says %d rows", len(rows))
	}
	counts := map[Kind]int{}
	for i, r := range rows {
		if i+1 < len(rows) && rows[i+1].pc == r.pc {
			continue // covers no instruction
		}
		got := table.Find(r.pc, rules)
		counts[got.Kind]++
		if r.want.Kind == KindNone && expression(got.Kind) {
			continue
		}
		if got != r.want {
			t.Errorf("%#x: %v, readelf says %v", r.pc, got, r.want)
		}
	}
	t.Logf("%d rows of readelf, %d in the table of %d KiB, %d rules; by kind %v", len(rows), table.Rows, len(table.Words)>>8, rules.Len(), counts)
	if table.Lost != 0 {
		t.Errorf("%d functions make no sense", table.Lost)
	}
}

func BenchmarkBuild(b *testing.B) {
	for _, pattern := range libraries {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			continue
		}
		b.Run(filepath.Base(found[0]), func(b *testing.B) {
			f, err := os.Open(found[0])
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = f.Close() }()
			im, err := Open(f)
			if err != nil {
				b.Fatal(err)
			}
			rules := NewRules()
			b.ReportAllocs()
			b.SetBytes(int64(im.frames.size))
			for b.Loop() {
				if _, err := Build(f, im, rules); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
