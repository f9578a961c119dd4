package native

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ingero/internal/proc"
	"ingero/internal/testkit"
	"ingero/pkg/events"
)

func TestMain(m *testing.M) {
	testkit.ContainerMain()
	os.Exit(m.Run())
}

// target builds the test program, which stands still, and its library.
func target(t testing.TB, flags ...string) (dir string) {
	t.Helper()
	return targetBy(t, testkit.CXX, flags...)
}

func targetBy(t testing.TB, compiler string, flags ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	lib := append(slices.Clone(flags), "-shared", "-fPIC", "-x", "c", "-o", filepath.Join(dir, "libthrough.so"), "testdata/library.c")
	compile(t, compiler, lib...)
	compile(t, compiler, append(slices.Clone(flags), "-o", filepath.Join(dir, "target"), "testdata/target.cc", "-L"+dir, "-lthrough", "-Wl,-rpath,$ORIGIN")...)
	return dir
}

func compile(t testing.TB, compiler string, args ...string) {
	t.Helper()
	testkit.NeedTool(t, compiler)
	if out, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", compiler, args, err, out)
	}
}

// seen is a debugger's frame.
type seen struct {
	PC     uint64
	Name   string
	File   string
	Line   int32
	Inline bool
	Signal bool
}

const script = `
import gdb, json
out, f = [], gdb.newest_frame()
while f is not None:
    sal = f.find_sal()
    out.append({"PC": f.pc(), "Name": f.name() or "", "File": sal.symtab.fullname() if sal.symtab else "",
        "Line": sal.line, "Inline": f.type() == gdb.INLINE_FRAME, "Signal": f.type() == gdb.SIGTRAMP_FRAME})
    f = f.older()
print("STACK " + json.dumps(out))
`

// backtrace reads the stack of a process with a debugger.
func backtrace(t testing.TB, pid int) (out []seen) {
	t.Helper()
	testkit.NeedTool(t, "gdb")
	file := filepath.Join(t.TempDir(), "stack.py")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := exec.Command("gdb", "-nx", "-batch", "-iex", "set debuginfod enabled off", "-iex", "set auto-load no",
		"-p", strconv.Itoa(pid), "-ex", "source "+file).CombinedOutput()
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "STACK "); ok {
			if err := json.Unmarshal([]byte(rest), &out); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(out) == 0 {
		t.Fatalf("gdb says nothing: %v\n%s", err, text)
	}
	return out
}

// addresses returns the addresses of all frames that are not inlined.
func addresses(stack []seen) (ips []uint64) {
	for _, f := range stack {
		if !f.Inline {
			ips = append(ips, f.PC)
		}
	}
	return ips
}

// bare strips the parameters off a function's name, so that it equals a debugger's.
func bare(name string) string {
	name, _, _ = strings.Cut(name, "(")
	return name
}

// agree compares frames with a debugger's, for the functions of our programs. The C library may or
// may not have debug information, so there each address only needs a frame.
func agree(t *testing.T, got []events.Frame, want []seen) {
	t.Helper()
	for _, ip := range addresses(want) {
		if !slices.ContainsFunc(got, func(f events.Frame) bool { return f.IP == ip }) {
			t.Errorf("no frame of %#x", ip)
		}
	}
	got = slices.DeleteFunc(slices.Clone(got), func(f events.Frame) bool { return strings.Contains(f.Module, "/libc.so") && f.Func != signalName })
	want = slices.DeleteFunc(slices.Clone(want), func(f seen) bool { return !f.Signal && !strings.Contains(f.File, "testdata") })
	if len(got) != len(want) {
		t.Errorf("%d frames, want %d", len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		g, w := got[i], want[i]
		switch {
		case w.Signal:
			if g.Func != signalName {
				t.Errorf("frame %d: %+v, want a signal's", i, g)
			}
		case g.IP != w.PC || g.Func != bare(w.Name) || g.Line != w.Line || g.File != w.File || g.Inline != w.Inline:
			t.Errorf("frame %d: %+v\nwant %+v", i, g, w)
		}
	}
}

func newSymbolizer(t testing.TB, limits Limits, now func() time.Time) *Symbolizer {
	t.Helper()
	s := New(proc.FS{}, limits, now)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// far is a time by which every process of these tests has begun.
var far = time.Now().Add(time.Hour).UnixNano()

// The frames equal a debugger's: functions, lines, inlined functions, and the signal between them.
func TestResolve(t *testing.T) { resolve(t, testkit.CXX) }

// resolve is TestResolve for one compiler.
func resolve(t *testing.T, compiler string) {
	testkit.NeedTool(t, "gdb")
	for _, flags := range [][]string{{"-O2", "-g"}, {"-O0", "-g"}, {"-O2", "-gdwarf-4", "-no-pie"}, {"-O2", "-g", "-gz"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			dir := targetBy(t, compiler, flags...)
			c := testkit.Start(t, exec.Command(filepath.Join(dir, "target")))
			c.Line("ready")
			stack := backtrace(t, c.PID())
			s := newSymbolizer(t, Limits{}, nil)
			ips := addresses(stack)
			cold := s.Resolve(uint32(c.PID()), far, ips, true)
			agree(t, cold, stack)
			if warm := s.Resolve(uint32(c.PID()), far, ips, true); !slices.Equal(warm, cold) {
				t.Errorf("again: %+v\nbefore %+v", warm, cold)
			}
			names := make([]string, len(cold))
			for i, f := range cold {
				names[i] = f.Func
			}
			for _, want := range []string{"work::Step<long>::rest", "handler", signalName, "work::divide", "work::forward", "hidden", "through", "main"} {
				if !slices.Contains(names, want) {
					t.Errorf("no %s among %q", want, names)
				}
			}
		})
	}
}

// Without debug information, frames have functions, offsets and modules.
func TestResolveStripped(t *testing.T) {
	testkit.NeedTool(t, "gdb")
	dir := target(t, "-O2", "-rdynamic", "-s")
	c := testkit.Start(t, exec.Command(filepath.Join(dir, "target")))
	c.Line("ready")
	ips := addresses(backtrace(t, c.PID()))
	s := newSymbolizer(t, Limits{}, nil)
	got := s.Resolve(uint32(c.PID()), far, ips, true)
	found := map[string]bool{}
	for _, f := range got {
		if strings.Contains(f.Module, "/libc.so") { // may or may not have debug information
			continue
		}
		found[f.Func] = true
		if f.Module == "" || f.Offset == 0 || f.Line != 0 || f.Inline {
			t.Errorf("%+v", f)
		}
	}
	if !found["through"] || !found["handler"] || !found["main"] || found["hidden"] {
		t.Errorf("%v", found)
	}
}

func TestResolveInContainer(t *testing.T) {
	testkit.NeedRoot(t)
	testkit.NeedTool(t, "gdb")
	dir, root := target(t, "-O2", "-g"), t.TempDir()
	testkit.ContainerRoot(t, root, map[string]string{"app/target": filepath.Join(dir, "target"), "app/libthrough.so": filepath.Join(dir, "libthrough.so")})
	c := testkit.Start(t, testkit.Container(t, root, "/app/target"))
	c.Line("ready")
	stack := backtrace(t, c.PID())
	s := newSymbolizer(t, Limits{}, nil)
	got := s.Resolve(uint32(c.PID()), far, addresses(stack), true)
	agree(t, got, stack)
	if last := got[len(got)-1]; !strings.HasPrefix(last.Module, "/") {
		t.Errorf("%+v", last)
	}
}

// A deleted file is found, and so is the separate debug file beside it.
func TestResolveDeletedWithDebugFile(t *testing.T) {
	testkit.NeedRoot(t)
	testkit.NeedTool(t, "gdb", "objcopy")
	dir := target(t, "-O2", "-g")
	program, debug := filepath.Join(dir, "target"), filepath.Join(dir, ".debug", "target.debug")
	if err := os.Mkdir(filepath.Dir(debug), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, argv := range [][]string{{"objcopy", "--only-keep-debug", program, debug}, {"objcopy", "--strip-all", "--add-gnu-debuglink=" + debug, program}} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", argv, err, out)
		}
	}
	c := testkit.Start(t, exec.Command(program))
	c.Line("ready")
	stack := backtrace(t, c.PID())
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	s := newSymbolizer(t, Limits{}, nil)
	agree(t, s.Resolve(uint32(c.PID()), far, addresses(stack), true), stack)
}

// A process that has ended is resolved if its mappings were learned in time. Otherwise its frames
// stay bare addresses.
func TestResolveEnded(t *testing.T) {
	dir := target(t, "-O2", "-g")
	c := testkit.Start(t, exec.Command(filepath.Join(dir, "target")))
	c.Line("ready")
	pid := uint32(c.PID())
	stack := backtrace(t, c.PID())
	ips := addresses(stack)
	s, late := newSymbolizer(t, Limits{}, nil), newSymbolizer(t, Limits{}, nil)
	code, err := proc.FS{}.Code(pid, time.Unix(0, far))
	if err != nil {
		t.Fatal(err)
	}
	s.Learn(pid, code)
	s.Forked(pid, pid+1<<24)
	c.Signal(syscall.SIGKILL)
	_ = c.Wait()
	agree(t, s.Resolve(pid, far, ips, true), stack)
	agree(t, s.Resolve(pid+1<<24, far, ips, true), stack)
	for _, f := range late.Resolve(pid, far, ips, true) {
		if f.Func != "" || f.Module != "" || f.IP == 0 {
			t.Errorf("%+v", f)
		}
	}
	if n := late.Figures().Ended; n != uint64(len(ips)) {
		t.Errorf("%d ended, want %d", n, len(ips))
	}
	s.Forget(pid)
	s.Forget(pid + 1<<24)
	if f := s.Figures(); f.Processes != 0 || f.Open != 0 {
		t.Errorf("%+v", f)
	}
}

// A child has its parent's mappings until it has its own, and each counts for itself: a file stays open
// while one of the two maps it.
func TestForked(t *testing.T) {
	const child = 1 << 24
	c := testkit.Start(t, exec.Command("cat"))
	c.Send("up")
	c.Line("up") // it has mapped its libraries
	pid := uint32(c.PID())
	code, err := proc.FS{}.Code(pid, time.Unix(0, far))
	if err != nil {
		t.Fatal(err)
	}
	ip := []uint64{code[0].Start + 8}
	for name, tt := range map[string]struct {
		early       bool // the file is read before the fork
		first, last func(s *Symbolizer, parent, child uint32)
	}{
		"read before, the child ends first": {early: true, first: func(s *Symbolizer, _, child uint32) { s.Forget(child) },
			last: func(s *Symbolizer, parent, _ uint32) { s.Forget(parent) }},
		"read after, the child ends first": {first: func(s *Symbolizer, _, child uint32) { s.Forget(child) },
			last: func(s *Symbolizer, parent, _ uint32) { s.Forget(parent) }},
		"read after, the parent ends first": {first: func(s *Symbolizer, parent, _ uint32) { s.Forget(parent) },
			last: func(s *Symbolizer, _, child uint32) { s.Forget(child) }},
		"the child maps something else": {early: true, first: func(s *Symbolizer, _, child uint32) { s.Learn(child, code[len(code)-1:]) },
			last: func(s *Symbolizer, parent, _ uint32) { s.Forget(parent) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSymbolizer(t, Limits{}, nil)
			s.Learn(pid, code)
			if tt.early {
				s.Resolve(pid, far, ip, true)
			}
			s.Forked(pid, child)
			for _, p := range []uint32{pid, child} {
				if got := s.Resolve(p, far, ip, true); len(got) != 1 || got[0].Module == "" {
					t.Errorf("process %d: %+v", p, got)
				}
			}
			for _, step := range []struct {
				do   func(s *Symbolizer, parent, child uint32)
				open int
			}{{tt.first, 1}, {tt.last, 0}} {
				step.do(s, pid, child)
				if n := s.Figures().Open; n != step.open {
					t.Errorf("%d files are open, want %d", n, step.open)
				}
			}
		})
	}
}

// A new process with a reused number is not taken for the former one.
func TestResolveOtherProcess(t *testing.T) {
	dir := target(t, "-O2", "-g")
	c := testkit.Start(t, exec.Command(filepath.Join(dir, "target")))
	c.Line("ready")
	ips := addresses(backtrace(t, c.PID()))
	s := newSymbolizer(t, Limits{}, nil)
	for _, f := range s.Resolve(uint32(c.PID()), time.Now().Add(-time.Hour).UnixNano(), ips, true) {
		if f.Func != "" || f.Module != "" {
			t.Errorf("%+v", f)
		}
	}
}

// An unmapped address stays bare, and the vdso is named.
func TestResolveOdd(t *testing.T) {
	dir := target(t, "-O2", "-g")
	c := testkit.Start(t, exec.Command(filepath.Join(dir, "target")))
	c.Line("ready")
	pid := uint32(c.PID())
	list, err := proc.FS{}.Code(pid, time.Unix(0, far))
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(list, func(m proc.Mapping) bool { return m.Path == "[vdso]" })
	if at < 0 {
		t.Fatalf("no vdso in %+v", list)
	}
	s := newSymbolizer(t, Limits{}, nil)
	named := map[string]bool{}
	for ip := list[at].Start; ip < list[at].End; ip += 16 {
		f := s.Resolve(pid, far, []uint64{ip}, true)
		if len(f) != 1 || f[0].Module != "[vdso]" {
			t.Fatalf("%#x is %+v", ip, f)
		}
		named[f[0].Func] = true
	}
	if !named["clock_gettime"] && !named["__vdso_clock_gettime"] && !named["__kernel_clock_gettime"] {
		t.Errorf("%v", named)
	}
	odd := []uint64{0, 1, 0x10, 1<<47 - 1, 1 << 63, 1<<64 - 1}
	got := s.Resolve(pid, far, odd, false)
	if len(got) != len(odd) {
		t.Fatalf("%+v", got)
	}
	for i, f := range got {
		if f != (events.Frame{Kind: events.FrameNative, IP: odd[i]}) {
			t.Errorf("%#x is %+v", odd[i], f)
		}
	}
	if n := s.Figures().Unmapped; n != uint64(len(odd)) {
		t.Errorf("%d unmapped", n)
	}
}
