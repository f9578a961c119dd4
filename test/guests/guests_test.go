package guests

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"ingero/internal/testkit"
)

// guestProgram builds what runs in a guest.
func guestProgram(t *testing.T) string {
	t.Helper()
	init := filepath.Join(t.TempDir(), "init")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", init, "./guest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", build, err, out)
	}
	return init
}

// What the driver reports at its tracepoints is told, once though the kernel's log has it
// too, first things first, and what there is no room for is counted.
func TestXid(t *testing.T) {
	testkit.NeedTool(t, "go")
	module := Module(t, Kernel61)
	t.Log(Boot(t, Kernel61, Options{Init: guestProgram(t), Append: "log_buf_len=1M loglevel=2", Files: map[string]string{"/xid.ko": module}}))
}

// Each kernel loads the programs, attaches to the simulated CUDA libraries in
// the way that is best there, and counts and records every call.
func TestGuests(t *testing.T) {
	testkit.NeedTool(t, "go")
	files, err := Libc()
	if err != nil {
		testkit.NeedKernel(t, "glibc: "+err.Error(), false)
	}
	init := guestProgram(t)
	tests := []struct {
		name   string
		kernel Kernel
		append string
		says   []string
	}{
		{"6.1", Kernel61, "", []string{"Linux version 6.1.", "mode perf\n"}},
		{"6.12", Kernel612, "", []string{"Linux version 6.12.", "mode multi\n"}},
		{"6.12 preempt", Kernel612, "preempt=full", []string{"Linux version 6.12.", "mode multi\n", "preempt full\n"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			out := Boot(t, test.kernel, Options{Init: init, Append: test.append, Files: files})
			t.Log(out)
			for _, s := range test.says {
				if !strings.Contains(out, s) {
					t.Errorf("does not say %q:\n%s", s, out)
				}
			}
		})
	}
}

// The archive has the layout that the kernel unpacks: fixed-width headers, names
// and contents each padded to four bytes.
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
		size, nameSize := hex(t, rest[54:62]), hex(t, rest[94:102])
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

func hex(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.ParseInt(s, 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return int(n)
}
