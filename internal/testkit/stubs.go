package testkit

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ingero/pkg/events"
)

// Stubs is a library made from catalog rows, and a program that calls every
// function of it twice: once successfully, then with an error. All arguments
// and results are known, see [Stubs.Want].
type Stubs struct {
	Library string // path of the shared object; exports every symbol of every row
	Caller  string // path of the program
	rows    []events.Row
}

// StubSpin is how long each stub works, in nanoseconds, so that a duration that
// was not measured cannot pass for one.
const StubSpin = 300_000

// StubCall is what the caller says of one call, measured by itself.
type StubCall struct {
	Symbol string
	Before int64 // CLOCK_MONOTONIC ns before the call
	After  int64 // and after it
	TID    uint32
}

const stubHead = `#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#include <sys/syscall.h>
typedef uint64_t u64;
typedef struct { unsigned x, y, z; } dim3;
static inline u64 now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000ull + t.tv_nsec; }
`

// MakeStubs writes, compiles and returns the stubs for rows, whose symbols must
// be distinct. It needs gcc.
func MakeStubs(t testing.TB, rows []events.Row) *Stubs {
	t.Helper()
	NeedTool(t, "gcc")
	dir := t.TempDir()
	s := &Stubs{Library: filepath.Join(dir, "libcudart.so.12"), Caller: filepath.Join(dir, "caller"), rows: rows}
	var lib, use, calls strings.Builder
	lib.WriteString(stubHead + "int stub_result;\nstatic void work(void) { u64 end = now() + " + fmt.Sprint(StubSpin) + "; while (now() < end); }\n")
	use.WriteString(stubHead + "extern int stub_result;\nstatic u64 memory[64], cell[16];\nstatic const dim3 three = {5, 6, 7};\n")
	for i := range rows {
		for _, symbol := range rows[i].AllSymbols() {
			s.function(t, &lib, &rows[i], symbol)
			s.call(t, &use, &calls, &rows[i], symbol)
		}
	}
	fmt.Fprintf(&use, "int main(void) {\n\tfor (int i = 0; i < 64; i++) memory[i] = 0x%xull + i;\n"+
		"\tunsigned tid = syscall(SYS_gettid);\n\tu64 a, b;\n\tsetvbuf(stdout, 0, _IOLBF, 0);\n\tputs(\"ready\");\n\tgetchar();\n%s\treturn 0;\n}\n", memoryBase, calls.String())
	for name, text := range map[string]string{"lib.c": lib.String(), "use.c": use.String()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	gcc(t, dir, "-shared", "-fPIC", "-o", s.Library, "lib.c")
	gcc(t, dir, "-o", s.Caller, "use.c", "-L"+dir, "-l:libcudart.so.12", "-Wl,-rpath,"+dir)
	return s
}

func gcc(t testing.TB, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("gcc", append([]string{"-w", "-O1"}, args...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("gcc %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

const memoryBase = 0x1111222200003333

// memoryWord is what lies in the caller's memory at a byte offset.
func memoryWord(off uint16) uint64 {
	word := func(i uint16) uint64 { return memoryBase + uint64(i) }
	lo := word(off / 8)
	if off%8 == 0 {
		return lo
	}
	return lo>>(8*(off%8)) | word(off/8+1)<<(64-8*(off%8))
}

// value is what the caller passes for parameter i of a row.
func value(r *events.Row, i int) uint64 { return uint64(r.Op)<<32 | 0xabc000 | uint64(i+1) }

// outWord is what a stub stores through its pointer parameter i.
func outWord(r *events.Row, i int) uint64 { return uint64(r.Op)<<40 | uint64(i+1)<<8 | 0x77 }

// uses tells how the row's expressions use a parameter: as a plain value, as a
// pointer to a result, or as a pointer to memory.
func uses(r *events.Row, name string) (out, memory bool) {
	for _, x := range slices.Concat(r.Keep, []string{r.Tag}) {
		_, x = events.SplitRole(x)
		if x == "*"+name {
			out = true
		}
		if strings.HasPrefix(x, name+"+") {
			memory = true
		}
	}
	return out, memory
}

func (s *Stubs) function(t testing.TB, w *strings.Builder, r *events.Row, symbol string) {
	t.Helper()
	params, err := r.ParamList()
	if err != nil {
		t.Fatal(err)
	}
	var decl []string
	body := "work();"
	for i, p := range params {
		typ := p.Type
		if typ == "" {
			typ = "u64"
		}
		decl = append(decl, typ+" p"+fmt.Sprint(i))
		if out, _ := uses(r, p.Name); out {
			body += fmt.Sprintf(" *(u64 *)p%d = %#xull;", i, outWord(r, i))
		}
	}
	if len(decl) == 0 {
		decl = []string{"void"}
	}
	fmt.Fprintf(w, "__attribute__((noinline)) int %s(%s) { %s return stub_result; }\n", symbol, strings.Join(decl, ", "), body)
}

// call writes the call. The upper half of every int argument is garbage, as the
// calling convention allows.
func (s *Stubs) call(t testing.TB, head, w *strings.Builder, r *events.Row, symbol string) {
	t.Helper()
	params, err := r.ParamList()
	if err != nil {
		t.Fatal(err)
	}
	var types, args []string
	for i, p := range params {
		out, memory := uses(r, p.Name)
		typ, arg := "u64", fmt.Sprintf("%#xull", value(r, i))
		switch {
		case p.Type == "dim3":
			typ, arg = "dim3", "three"
		case out:
			arg = fmt.Sprintf("(u64)&cell[%d]", i)
		case memory:
			arg = "(u64)memory"
		case p.Type == "int":
			arg = fmt.Sprintf("0xdeadbeef%08xull", uint32(value(r, i)))
		}
		types, args = append(types, typ), append(args, arg)
	}
	fmt.Fprintf(head, "extern int %s();\n", symbol)
	for _, result := range []string{"0", fmt.Sprint(s.Result(r))} {
		fmt.Fprintf(w, "\tstub_result = %s; a = now(); ((int (*)(%s))%s)(%s); b = now(); printf(\"call %s %%lu %%lu %%u\\n\", a, b, tid);\n",
			result, strings.Join(types, ", "), symbol, strings.Join(args, ", "), symbol)
	}
}

// Result is what a row's functions return the second time.
func (s *Stubs) Result(r *events.Row) int32 { return int32(r.Op) }

// Want evaluates an expression of a row against what the caller passes. failed
// says whether the call returned an error, after which results are not read.
func (s *Stubs) Want(t testing.TB, r *events.Row, expr string, failed bool) uint64 {
	t.Helper()
	params, err := r.ParamList()
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) (int, events.Param) {
		for i, p := range params {
			if p.Name == name {
				return i, p
			}
		}
		t.Fatalf("%s has no parameter %q", r.Name, name)
		return 0, events.Param{}
	}
	plain := func(name string) uint64 {
		i, p := at(name)
		switch p.Type {
		case "int":
			return uint64(uint32(value(r, i)))
		case "dim3":
			return events.PackDim3(5, 6, 7)
		}
		return value(r, i)
	}
	var off, off2 uint16
	switch {
	case expr == "":
		return 0
	case expr[0] == '=':
		var n uint64
		_, _ = fmt.Sscan(expr[1:], &n)
		return n
	case expr[0] == '*':
		if failed {
			return 0
		}
		i, _ := at(expr[1:])
		return outWord(r, i)
	case strings.Contains(expr, "|"):
		n := strings.Split(expr, "|")
		return events.PackDim3(uint32(plain(n[0])), uint32(plain(n[1])), uint32(plain(n[2])))
	case strings.HasSuffix(expr, ":dim3"):
		_, _ = fmt.Sscanf(expr[strings.Index(expr, "+")+1:], "%d", &off)
		a, b := memoryWord(off), memoryWord(off+8)
		return events.PackDim3(uint32(a), uint32(a>>32), uint32(b))
	case strings.HasSuffix(expr, ":int"):
		_, _ = fmt.Sscanf(expr[strings.Index(expr, "+")+1:], "%d", &off)
		return uint64(uint32(memoryWord(off)))
	case strings.Contains(expr, "+"):
		if n, _ := fmt.Sscanf(expr[strings.Index(expr, "+")+1:], "%d*%d", &off, &off2); n == 2 {
			return memoryWord(off) * memoryWord(off2)
		}
		return memoryWord(off)
	case strings.Contains(expr, "*"):
		a, b, _ := strings.Cut(expr, "*")
		return plain(a) * plain(b)
	}
	return plain(expr)
}
