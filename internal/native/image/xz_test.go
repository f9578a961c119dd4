package image

import (
	"bytes"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"ingero/internal/testkit"
)

func xz(t testing.TB, b []byte, args ...string) []byte {
	t.Helper()
	testkit.NeedTool(t, "xz")
	cmd := exec.Command("xz", append([]string{"-c"}, args...)...)
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
		name string
		data []byte
		args []string
	}{
		{"empty", nil, nil},
		{"one byte", []byte{7}, nil},
		{"zeros", make([]byte, 3<<20), nil},
		{"noise", noise, nil},
		{"words", words, nil},
		{"both", slices.Concat(words, noise, words, noise), nil},
		{"several blocks", words, []string{"--block-size=65536"}},
		{"several blocks with their sizes", words, []string{"--block-size=65536", "-T2"}},
		{"fast", words, []string{"-0"}},
		{"other literals", words, []string{"--lzma2=preset=6,lc=0,lp=4,pb=0"}},
		{"other positions", words, []string{"--lzma2=preset=6,lc=4,lp=0,pb=4"}},
		{"no checksum", words, []string{"--check=none"}},
		{"SHA-256", words, []string{"--check=sha256"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			packed := xz(t, tt.data, tt.args...)
			got, err := unxz(packed, len(tt.data))
			if err != nil || !bytes.Equal(got, tt.data) {
				t.Fatalf("%d bytes, %v; want %d", len(got), err, len(tt.data))
			}
			if len(tt.data) == 0 {
				return
			}
			if _, err := unxz(packed, len(tt.data)-1); err == nil {
				t.Error("more was given than is allowed")
			}
			if got, err := unxz(packed[:len(packed)/2], len(tt.data)); err == nil && bytes.Equal(got, tt.data) {
				t.Error("half of it gives the whole")
			}
		})
	}
}

func TestUnxzRefuses(t *testing.T) {
	for name, b := range map[string][]byte{
		"nothing": nil, "no xz": []byte("\x7fELF............"), "a filter for instructions": xz(t, make([]byte, 100), "--x86", "--lzma2"),
	} {
		if _, err := unxz(b, 1<<20); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func FuzzUnxz(f *testing.F) {
	f.Add(xz(f, []byte(strings.Repeat("abc", 1000)+"xyz"+strings.Repeat("bca", 1000))))
	f.Add(xz(f, []byte("short")))
	f.Fuzz(func(t *testing.T, b []byte) {
		if out, _ := unxz(b, 1<<16); len(out) > 1<<16 {
			t.Errorf("%d bytes", len(out))
		}
	})
}
