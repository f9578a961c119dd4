package image

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ingero/internal/testkit"
)

// packs compresses its input with Python's lzma; its argument has further keyword arguments.
const packs = `import sys
from lzma import *
sys.stdout.buffer.write(compress(sys.stdin.buffer.read(), **eval(f"dict({sys.argv[1]})")))`

func packXZ(t testing.TB, b []byte, reported string) []byte {
	t.Helper()
	testkit.NeedTool(t, "python3")
	cmd := exec.Command("python3", "-c", packs, reported)
	cmd.Stdin = bytes.NewReader(b)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestUnxz(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 300_000)
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	words := []byte(strings.Repeat("the quick brown fox jumps over the lazy dog; ", 20_000))
	for i := 0; i < len(words); i += 997 {
		words[i] = byte(r.Uint32())
	}
	for _, tt := range []struct {
		name, reported string
		data           []byte
	}{
		{"empty", "", nil},
		{"one byte", "", []byte{7}},
		{"zeros", "", make([]byte, 3<<20)},
		{"noise", "", noise},
		{"words", "", words},
		{"both", "", slices.Concat(words, noise, words, noise)},
		{"fast", "preset=0", words},
		{"other literals", "filters=[dict(id=FILTER_LZMA2, preset=6, lc=0, lp=4, pb=0)]", words},
		{"other positions", "filters=[dict(id=FILTER_LZMA2, preset=6, lc=4, lp=0, pb=4)]", words},
		{"no checksum", "check=CHECK_NONE", words},
		{"SHA-256", "check=CHECK_SHA256", words},
		{"a filter for instructions", "filters=[dict(id=FILTER_X86), dict(id=FILTER_LZMA2)]", words},
		{"the largest dictionary", "preset=9", words},
	} {
		t.Run(tt.name, func(t *testing.T) { unpacks(t, packXZ(t, tt.data, tt.reported), tt.data) })
	}
}

// The output of xz --block-size=16384 has several blocks; with -T2 each states its sizes.
func TestUnxzBlocks(t *testing.T) {
	for _, name := range []string{"blocks.xz", "sizes.xz"} {
		packed, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			unpacks(t, packed, bytes.Repeat([]byte("the quick brown fox jumps over the lazy dog; "), 2000))
		})
	}
}

// unpacks checks that packed gives data, and that half of packed or a smaller limit does not.
func unpacks(t *testing.T, packed, data []byte) {
	t.Helper()
	got, err := unxz(packed, len(data))
	if err != nil || !bytes.Equal(got, data) {
		t.Fatalf("%d bytes, %v; want %d", len(got), err, len(data))
	}
	if len(data) == 0 {
		return
	}
	if _, err := unxz(packed, len(data)-1); err == nil {
		t.Error("more was given than is allowed")
	}
	if got, err := unxz(packed[:len(packed)/2], len(data)); err == nil && bytes.Equal(got, data) {
		t.Error("half of it gives the whole")
	}
}

func TestUnxzRefuses(t *testing.T) {
	for name, b := range map[string][]byte{
		"nothing": nil, "no xz": []byte("\x7fELF............"),
		"a dictionary of 96 MiB": packXZ(t, make([]byte, 100), "filters=[dict(id=FILTER_LZMA2, preset=0, dict_size=96<<20)]"),
	} {
		if _, err := unxz(b, 1<<20); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func FuzzUnxz(f *testing.F) {
	f.Add(packXZ(f, []byte(strings.Repeat("abc", 1000)+"xyz"+strings.Repeat("bca", 1000)), ""))
	f.Add(packXZ(f, []byte("short"), ""))
	f.Fuzz(func(t *testing.T, b []byte) {
		if out, _ := unxz(b, 1<<16); len(out) > 1<<16 {
			t.Errorf("%d bytes", len(out))
		}
	})
}
