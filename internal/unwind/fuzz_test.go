package unwind

import (
	"bytes"
	"debug/elf"
	"os"
	"testing"
)

// Any .eh_frame gives a valid table or an error.
func FuzzBuild(f *testing.F) {
	for _, path := range []string{"/lib/x86_64-linux-gnu/libdl.so.2", "/lib/x86_64-linux-gnu/libm.so.6", "/lib/aarch64-linux-gnu/libm.so.6"} {
		file, err := elf.Open(path)
		if err != nil {
			continue
		}
		if s := file.Section(".eh_frame"); s != nil {
			if b, err := s.Data(); err == nil {
				f.Add(b[:min(len(b), 4096)], s.Addr, false)
				f.Add(b[len(b)-min(len(b), 1000):], s.Addr, true)
			}
		}
		_ = file.Close()
	}
	f.Add(small.section(), uint64(small.at), false)
	f.Fuzz(func(t *testing.T, b []byte, at uint64, arm bool) {
		im := &Image{m: x86, frames: section{addr: at, size: uint64(len(b))}}
		if arm {
			im.m = arm64
		}
		rules := NewRules()
		table, err := Build(bytes.NewReader(b), im, rules)
		if err != nil {
			return
		}
		checkTable(t, table, rules)
	})
}

// Opening any file takes little time and memory.
func FuzzOpen(f *testing.F) {
	if b, err := os.ReadFile("/lib/x86_64-linux-gnu/libdl.so.2"); err == nil {
		f.Add(b)
	}
	f.Add(small.file())
	f.Fuzz(func(t *testing.T, b []byte) {
		im, err := Open(bytes.NewReader(b))
		if err != nil {
			return
		}
		im.Bias(0x7f0000000000, 0)
		rules := NewRules()
		if table, err := Build(bytes.NewReader(b), im, rules); err == nil {
			checkTable(t, table, rules)
		}
	})
}

// checkTable checks what the kernel's walker relies on: a bad table could make it loop or misread.
func checkTable(t *testing.T, table *Table, rules *Rules) {
	t.Helper()
	n := int(table.Words[1])
	index := table.Words[tableHead:][:n+1]
	rows := table.Words[tableHead+n+1:]
	if len(rows) != table.Rows || len(table.Words) > maxWords+tableHead+2 {
		t.Fatalf("%d words, %d rows of %d", len(table.Words), len(rows), table.Rows)
	}
	for i, v := range index {
		if int(v) > len(rows) || i > 0 && v < index[i-1] || i > 0 && v-index[i-1] > 1<<blockShift {
			t.Fatalf("block %d begins at row %d of %d", i, v, len(rows))
		}
	}
	for i := range n {
		for j := int(index[i]) + 1; j < int(index[i+1]); j++ {
			if rows[j]&(1<<blockShift-1) <= rows[j-1]&(1<<blockShift-1) {
				t.Fatalf("rows %d and %d are not in order", j-1, j)
			}
		}
	}
	for _, r := range rows {
		if int(r>>16) >= rules.Len() {
			t.Fatalf("rule %d of %d", r>>16, rules.Len())
		}
	}
	first := uint64(table.Words[0]) << blockShift
	for _, pc := range []uint64{0, first - 1, first, first + uint64(n)<<blockShift, 1<<64 - 1} {
		table.Find(pc, rules)
	}
}
