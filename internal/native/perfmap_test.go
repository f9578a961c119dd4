package native

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ingero/internal/testkit"
)

// Run-time code gets the names that its process writes, as soon as it writes them. Of two names for
// an address the last one counts.
func TestJIT(t *testing.T) {
	program := filepath.Join(t.TempDir(), "jit")
	compile(t, "gcc", "-O1", "-o", program, "testdata/jit.c")
	c := testkit.Start(t, exec.Command(program))
	var code uint64
	if _, err := fmt.Sscanf(c.Line("code"), "code %x", &code); err != nil {
		t.Fatal(err)
	}
	pid := uint32(c.PID())
	t.Cleanup(func() { _ = os.Remove(fmt.Sprintf("/tmp/perf-%d.map", pid)) })
	say := func(line string) {
		c.Send(line)
		c.Line("ok")
	}
	now := time.Unix(1000, 0)
	s := newSymbolizer(t, Limits{}, func() time.Time { return now })
	at := func(off uint64) string {
		now = now.Add(time.Second)
		f := s.Resolve(pid, far, []uint64{code + off}, true)
		if len(f) != 1 || f[0].Module != jitName {
			t.Fatalf("%+v", f)
		}
		return fmt.Sprintf("%s+%#x", f[0].Func, f[0].Offset)
	}
	check := func(off uint64, want string) {
		t.Helper()
		if got := at(off); got != want {
			t.Errorf("at %#x: %s, want %s", off, got, want)
		}
	}
	check(0x10, "+0x10") // there is no map yet
	say("0 100 py::forward:/app/train.py")
	check(0x10, "py::forward:/app/train.py+0x10")
	check(0x100, "+0x100")
	say("100 100 _ZN3jit3runEi")
	say("80 20 inner part")
	check(0x100, "jit::run+0x0")
	check(0x90, "inner part+0x10")
	check(0xb0, "py::forward:/app/train.py+0xb0")
	say("0 1000 all of it is new")
	check(0x90, "all of it is new+0x90")
	say("90 0 nothing")
	say("90 zz not a number")
	check(0x90, "all of it is new+0x90")
}

// Another user's map is ignored, and so is one that is not a regular file.
func TestJITOfOthers(t *testing.T) {
	testkit.NeedRoot(t)
	program := filepath.Join(t.TempDir(), "jit")
	compile(t, "gcc", "-O1", "-o", program, "testdata/jit.c")
	c := testkit.Start(t, exec.Command(program))
	var code uint64
	if _, err := fmt.Sscanf(c.Line("code"), "code %x", &code); err != nil {
		t.Fatal(err)
	}
	pid := uint32(c.PID())
	path := fmt.Sprintf("/tmp/perf-%d.map", pid)
	t.Cleanup(func() { _ = os.RemoveAll(path) })
	name := func() string {
		return newSymbolizer(t, Limits{}, nil).Resolve(pid, far, []uint64{code}, true)[0].Func
	}
	write := func() {
		if err := os.WriteFile(path, fmt.Appendf(nil, "%x 100 name\n", code), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write()
	if got := name(); got != "name" {
		t.Errorf("%q", got)
	}
	if err := os.Truncate(path, 1<<40); err != nil { // without content
		t.Fatal(err)
	}
	if got := name(); got != "name" {
		t.Errorf("in a file of a terabyte: %q", got)
	}
	if err := os.Chown(path, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	if got := name(); got != "" {
		t.Errorf("of another user: %q", got)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if got := name(); got != "" {
		t.Errorf("of a folder: %q", got)
	}
}

func TestPerfMapIsBounded(t *testing.T) {
	var b strings.Builder
	for i := range maxJIT + 1000 {
		fmt.Fprintf(&b, "%x 10 %s\n", 0x1000+16*i, strings.Repeat("n", 30+i%7))
	}
	j := &perfMap{}
	j.add(strings.NewReader(b.String()))
	if len(j.funcs) > maxJIT || j.bytes() > 12<<20 {
		t.Errorf("%d functions, %d bytes", len(j.funcs), j.bytes())
	}
	for i := range 1000 {
		if x := j.find(0x1000 + 16*uint64(i) + 3); x == nil || x.start != 0x1000+16*uint64(i) || int(x.n) != 30+i%7 {
			t.Fatalf("function %d: %+v", i, x)
		}
	}
	again := &perfMap{}
	again.add(strings.NewReader(strings.Repeat("x", 3*jitChunk) + "\n10 10 behind a line without an end\n"))
	if x := again.find(0x18); x == nil {
		t.Error("what is behind it is lost")
	}
}

func FuzzPerfMap(f *testing.F) {
	f.Add("1000 10 a\n1008 20 b c\n0x1000 0x1 d\n", uint64(0x1008))
	f.Add("ffffffffffffffff ffffffffffffffff x\n", uint64(1))
	f.Fuzz(func(t *testing.T, text string, ip uint64) {
		j := &perfMap{}
		j.add(strings.NewReader(text))
		if x := j.find(ip); x != nil && (ip < x.start || ip >= x.end || int(x.name)+int(x.n) > len(j.names)) {
			t.Errorf("%#x: %+v", ip, x)
		}
		if j.off > int64(len(text)) {
			t.Errorf("read %d of %d bytes", j.off, len(text))
		}
	})
}
