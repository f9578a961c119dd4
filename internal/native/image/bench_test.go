package image

import (
	"os"
	"path/filepath"
	"testing"
)

// large finds the largest common library of this system.
func large(b *testing.B) (path string) {
	var size int64
	for _, pattern := range []string{os.Getenv("INGERO_LARGE_LIBRARY"), "/usr/lib/*/libLLVM*.so*", "/usr/lib/*/libstdc++.so.6", "/lib/*/libc.so.6"} {
		all, _ := filepath.Glob(pattern)
		for _, name := range all {
			if st, err := os.Stat(name); err == nil && st.Size() > size {
				path, size = name, st.Size()
			}
		}
	}
	if path == "" {
		b.Fatal("no library found")
	}
	b.Logf("%s, %d MB", path, size>>20)
	return path
}

// BenchmarkCold measures the first lookup in a library.
func BenchmarkCold(b *testing.B) {
	path := large(b)
	addrs := functionsOf(b, path).addresses(40)
	for b.Loop() {
		f, err := os.Open(path)
		if err != nil {
			b.Fatal(err)
		}
		m, err := Open(f, nil)
		if err != nil {
			b.Fatal(err)
		}
		m.Find(addrs[:1])
		b.ReportMetric(float64(m.Bytes()), "held-B")
		if err := m.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkMore measures each further address.
func BenchmarkMore(b *testing.B) {
	path := large(b)
	addrs := functionsOf(b, path).addresses(4000)
	m := open(b, path)
	m.Find(addrs[:1])
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		m.Find(addrs[i%len(addrs):][:1])
	}
}
