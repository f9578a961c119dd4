package guests

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// The archive has the layout that the kernel unpacks: fixed-width headers, names and contents each
// padded to four bytes.
func TestInitrd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hello")
	if err := os.WriteFile(path, []byte("hello"), 0o644); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := writeInitrd(&b, map[string]string{"/a/b/hello": path}); err != nil {
		t.Fatal(err)
	}
	var names []string
	for rest := b.String(); len(rest) > 0; {
		if rest[:6] != "070701" {
			t.Fatalf("entry %d starts %q", len(names), rest[:6])
		}
		size, nameSize := hexNumber(t, rest[54:62]), hexNumber(t, rest[94:102])
		name := rest[110 : 110+nameSize-1]
		start := (110 + nameSize + 3) &^ 3
		if name == "a/b/hello" && rest[start:start+size] != "hello" {
			t.Errorf("content is %q", rest[start:start+size])
		}
		names = append(names, name)
		rest = rest[(start+size+3)&^3:]
	}
	want := "a a/b a/b/hello dev dev/console proc sys tmp TRAILER!!!"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("got entries %s, want %s", got, want)
	}
}

func hexNumber(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.ParseInt(s, 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return int(n)
}
