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

// Stubs is a library made from catalog rows, and a program that calls each of its functions twice:
// once successfully, then with an error. All arguments and results are known, see [Stubs.Want].
type Stubs struct {
	Library string                 // path of the shared object; exports every symbol of every row
	Caller  string                 // path of the program
	Rows    map[string]*events.Row // by symbol
}

// StubSpin is how long each stub works, in nanoseconds, so that an unmeasured duration is
// recognized.
const StubSpin = 100_000

// StubCall is the caller's own record of a call.
type StubCall struct {
	Symbol string
	Before int64 // CLOCK_MONOTONIC ns before the call
	After  int64 // and after it
	TID    uint32
}

const stubHead = `#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
typedef uint64_t u64;
typedef struct { unsigned x, y, z; } dim3;
typedef struct { u64 w[3]; } struct24;
typedef struct { u64 w[4]; } struct32;
typedef struct { u64 w[8]; } struct64;
typedef struct { u64 w[16]; } struct128;
static inline u64 now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000ull + t.tv_nsec; }
`

// MakeStubs writes and compiles stubs for the symbols that rows export in a major version of the
// library. It needs gcc.
func MakeStubs(t testing.TB, rows []events.Row, version int) *Stubs {
	t.Helper()
	NeedTool(t, "gcc")
	dir := t.TempDir()
	file := fmt.Sprintf("libcudart.so.%d", version)
	s := &Stubs{Library: filepath.Join(dir, file), Caller: filepath.Join(dir, "caller"), Rows: map[string]*events.Row{}}
	var lib, use, calls, texts strings.Builder
	lib.WriteString(stubHead + "int stub_result;\nstatic void work(void) { u64 end = now() + " + fmt.Sprint(StubSpin) + "; while (now() < end); }\n")
	use.WriteString(stubHead + "extern int stub_result;\nstatic u64 memory[64], cell[64];\nstatic const dim3 three = {5, 6, 7};\n")
	for i := range rows {
		r := &rows[i]
		for _, symbol := range r.Exports() {
			if symbol.In(version) {
				s.Rows[symbol.Name] = r
				s.function(t, &lib, r, symbol.Name)
				s.call(t, &use, &calls, r, symbol.Name)
			}
		}
		if r.Text {
			fmt.Fprintf(&texts, "\tstrcpy((char *)%#x, %q);\n", textAt(r), r.Name)
		}
	}
	fmt.Fprintf(&use, "int main(void) {\n\tfor (int i = 0; i < 64; i++) memory[i] = 0x%xull + i, cell[i] = 0xdeadbeefdeadbeefull;\n"+
		"\tmmap((void *)%#x, %#x, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);\n%s"+
		"\tunsigned tid = syscall(SYS_gettid);\n\tu64 a, b;\n\tsetvbuf(stdout, 0, _IOLBF, 0);\n\tputs(\"ready\");\n\tgetchar();\n%s\treturn 0;\n}\n",
		memoryBase, textBase, textSize, texts.String(), calls.String())
	for name, text := range map[string]string{"lib.c": lib.String(), "use.c": use.String(), "lib.map": file + " { global: *; };\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	gcc(t, dir, "-shared", "-fPIC", "-o", s.Library, "lib.c", "-Wl,--version-script=lib.map")
	gcc(t, dir, "-o", s.Caller, "use.c", "-L"+dir, "-l:"+file, "-Wl,-rpath,"+dir)
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

// memoryWord returns the word at a byte offset of the caller's memory.
func memoryWord(off uint16) uint64 {
	word := func(i uint16) uint64 { return memoryBase + uint64(i) }
	lo := word(off / 8)
	if off%8 == 0 {
		return lo
	}
	return lo>>(8*(off%8)) | word(off/8+1)<<(64-8*(off%8))
}

// value returns the caller's value of parameter i of a row.
func value(r *events.Row, i int, name string) uint64 {
	if r.Text && r.Keep[0] == name || r.Text && strings.HasSuffix(r.Keep[0], ":"+name) {
		return textAt(r)
	}
	return uint64(r.Op)<<32 | 0xabc000 | uint64(i+1)
}

// outWord returns what a stub stores through its pointer parameter i, at an offset.
func outWord(r *events.Row, i int, off uint16) uint64 {
	return uint64(r.Op)<<40 | uint64(off)<<24 | uint64(i+1)<<8 | 0x77
}

// The strings of texts lie at the same addresses in every run.
const (
	textBase = 0x100000000
	textSize = 0x200000
)

func textAt(r *events.Row) uint64 { return textBase + uint64(r.Op)<<8 }

// use is one expression's use of a parameter.
type use struct {
	out, memory, narrow bool
	off                 uint16
}

// usesOf returns how the row's expressions use a parameter: as a plain value, as a pointer to a
// result, or as a pointer to memory.
func usesOf(r *events.Row, name string) (out []use) {
	for _, x := range slices.Concat(r.Keep, []string{r.Tag}) {
		_, x = events.SplitRole(x)
		x, typ, _ := strings.Cut(x, ":")
		x, stored := strings.CutPrefix(x, "*")
		base, at, plus := strings.Cut(x, "+")
		if base != name || !stored && !plus {
			continue
		}
		u := use{out: stored, memory: !stored, narrow: typ == "int"}
		_, _ = fmt.Sscanf(at, "%d", &u.off)
		out = append(out, u)
	}
	return out
}

// params returns a row's parameters, regardless of their registers.
func params(t testing.TB, r *events.Row) []events.Param {
	t.Helper()
	ps, err := r.ParamList(events.AMD64)
	if err != nil {
		t.Fatal(err)
	}
	return ps
}

// cType returns the C type of a parameter.
func cType(p events.Param) string {
	switch p.Type {
	case "":
		return "u64"
	case "struct":
		return fmt.Sprintf("struct%d", p.Bytes)
	}
	return p.Type
}

func (s *Stubs) function(t testing.TB, w *strings.Builder, r *events.Row, symbol string) {
	t.Helper()
	var decl []string
	body := "work();"
	for i, p := range params(t, r) {
		decl = append(decl, cType(p)+" p"+fmt.Sprint(i))
		for _, u := range usesOf(r, p.Name) {
			if u.out {
				typ := "u64"
				if u.narrow {
					typ = "int"
				}
				body += fmt.Sprintf(" *(%s *)(p%d + %d) = %#xull;", typ, i, u.off, outWord(r, i, u.off))
			}
		}
	}
	if len(decl) == 0 {
		decl = []string{"void"}
	}
	fmt.Fprintf(w, "__attribute__((noinline)) int %s(%s) { %s return stub_result; }\n", symbol, strings.Join(decl, ", "), body)
}

// call writes the call. The upper half of every int argument is garbage, as the calling convention
// allows.
func (s *Stubs) call(t testing.TB, head, w *strings.Builder, r *events.Row, symbol string) {
	t.Helper()
	var types, args []string
	for i, p := range params(t, r) {
		uses := usesOf(r, p.Name)
		typ, arg := "u64", fmt.Sprintf("%#xull", value(r, i, p.Name))
		switch {
		case p.Type == "dim3":
			typ, arg = "dim3", "three"
		case p.Type == "struct":
			typ, arg = cType(p), "*("+cType(p)+" *)memory"
		case len(uses) > 0 && uses[0].out:
			arg = fmt.Sprintf("(u64)&cell[%d]", 4*i)
		case len(uses) > 0:
			arg = "(u64)memory"
		case p.Type == "int":
			arg = fmt.Sprintf("0xdeadbeef%08xull", uint32(value(r, i, p.Name)))
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

// Want evaluates an expression of a row on the caller's values. failed means that the call returned
// an error, after which results are not read.
func (s *Stubs) Want(t testing.TB, r *events.Row, expr string, failed bool) uint64 {
	t.Helper()
	ps := params(t, r)
	plain := func(name string) uint64 {
		i := slices.IndexFunc(ps, func(p events.Param) bool { return p.Name == name })
		if i < 0 {
			t.Fatalf("%s has no parameter %q", r.Name, name)
		}
		switch ps[i].Type {
		case "int":
			return uint64(uint32(value(r, i, name)))
		case "dim3":
			return events.PackDim3(5, 6, 7)
		}
		return value(r, i, name)
	}
	body, typ, _ := strings.Cut(expr, ":")
	name, at, memory := strings.Cut(body, "+")
	var off, off2 uint16
	product, _ := fmt.Sscanf(at, "%d*%d", &off, &off2)
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
		i := slices.IndexFunc(ps, func(p events.Param) bool { return p.Name == name[1:] })
		return narrow(outWord(r, i, off), typ)
	case strings.Contains(expr, "|"):
		n := strings.Split(expr, "|")
		if len(n) == 2 {
			return plain(n[0])&0xffff | plain(n[1])&0xffff<<16
		}
		return events.PackDim3(uint32(plain(n[0])), uint32(plain(n[1])), uint32(plain(n[2])))
	case typ == "dim3":
		a, b := memoryWord(off), memoryWord(off+8)
		return events.PackDim3(uint32(a), uint32(a>>32), uint32(b))
	case typ == "volume":
		return memoryWord(off) * memoryWord(off+8) * memoryWord(off+16)
	case memory && product == 2:
		return memoryWord(off) * memoryWord(off2)
	case memory:
		return narrow(memoryWord(off), typ)
	case strings.Contains(expr, "*"):
		a, b, _ := strings.Cut(expr, "*")
		return plain(a) * plain(b)
	}
	return plain(expr)
}

func narrow(v uint64, typ string) uint64 {
	if typ == "int" {
		return uint64(uint32(v))
	}
	return v
}
