package cli

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"ingero/internal/testkit"
	"ingero/sim"
)

// lyingLibraries creates malformed files that pose as CUDA libraries, and returns their paths.
func lyingLibraries(t *testing.T, dir, real string) (paths []string) {
	t.Helper()
	whole, err := os.ReadFile(real)
	if err != nil {
		t.Fatal(err)
	}
	endless := bytes.Clone(whole)
	binary.LittleEndian.PutUint64(endless[0x28:], 1<<62) // e_shoff
	binary.LittleEndian.PutUint16(endless[0x3c:], 0xffff)
	turned := bytes.Clone(whole)
	for i := 64; i < len(turned); i += 8 { // all that the headers point to
		turned[i] ^= 0xff
	}
	for name, text := range map[string][]byte{
		"noise": bytes.Repeat([]byte{0xcc, 0x90, 0x0f, 0x0b}, 16<<10), "short": whole[:4096], "endless": endless, "turned": turned, "sparse": whole,
	} {
		path := filepath.Join(dir, name, "libcuda.so.1")
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		testkit.WriteProgram(t, path, text)
		if name == "sparse" {
			if err := os.Truncate(path, 1<<40); err != nil {
				t.Fatal(err)
			}
		}
		paths = append(paths, path)
	}
	return paths
}

// A target that replaces its libraries and its perf map by pipes is traced like any other, and so
// is one with malformed libraries. ingero neither blocks on the pipes nor runs the target's code.
func TestHostileTarget(t *testing.T) {
	testkit.NeedTool(t, "gcc")
	b := newBench(t)
	own := filepath.Join(b.dir, "own")
	stack, err := sim.Extract(own)
	if err != nil {
		t.Fatal(err)
	}
	mapper := filepath.Join(b.dir, "mapper")
	if out, err := exec.Command("gcc", "-O1", "-o", mapper, "testdata/mapper.c").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	target := testkit.Start(t, exec.Command(stack.Program("train"), "--seconds", "60", "--hold"))
	target.Line("ready")
	libs, err := filepath.Glob(own + "/libcudart.so.*") // its mapped files: other pipes would block the target itself
	if err != nil || len(libs) == 0 {
		t.Fatalf("no libraries in %s: %v", own, err)
	}
	liars := testkit.Start(t, exec.Command(mapper, lyingLibraries(t, b.dir, libs[0])...))
	liars.Line("ready")
	pipes := append(libs, fmt.Sprintf("/tmp/perf-%d.map", target.PID()))
	for _, path := range pipes {
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if err := unix.Mkfifo(path, 0o666); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Remove(path) })
	}
	target.Send("go")
	trace := b.ingero("trace", "--pid", pid(target)+","+pid(liars), "--stack=all")
	testkit.Eventually(t, "calls", func() bool { return b.tracing(2).Calls > 100 })
	trace.Signal(syscall.SIGINT)
	stdout, stderr, code := finish(t, trace)
	if code != 0 || !strings.Contains(stdout, "cudaLaunchKernel") {
		t.Errorf("exit code %d\n%s\n%s", code, stdout, stderr)
	}
	liars.CloseStdin()
	if err := liars.Wait(); err != nil {
		t.Errorf("the other target: %v", err)
	}
}
