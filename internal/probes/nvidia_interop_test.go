//go:build interop

package probes_test

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ingero/internal/probes"
	"ingero/internal/testkit"
	"ingero/pkg/events"
)

// nvidiaCaller loads a library and calls each of its functions, each in its own child, three times
// with arguments that encode their slot. It prints the last result, or that the child did not
// survive.
const nvidiaCaller = `#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/wait.h>
int main(int c, char **v)
{
	void *h = dlopen(v[1], RTLD_NOW);
	long b = 0x500000000000;
	int fds[2], r = 0, state;
	if (!h) { fprintf(stderr, "%s\n", dlerror()); return 1; }
	puts("ready"); fflush(stdout); getchar();
	for (int i = 2; i < c; i++) {
		int (*f)(long, long, long, long, long, long, long, long, long, long, long) = dlsym(h, v[i]);
		if (!f) { fprintf(stderr, "%s\n", dlerror()); return 1; }
		if (pipe(fds)) return 1;
		pid_t p = fork();
		if (!p) {
			alarm(20);
			for (int n = 0; n < 3; n++)
				r = f(b + 0x1001, b + 0x2002, b + 0x3003, b + 0x4004, b + 0x5005, b + 0x6006, b + 0x7007, b + 0x8008, b + 0x9009, b + 0xa00a, b + 0xb00b);
			write(fds[1], &r, sizeof(r));
			_exit(0);
		}
		waitpid(p, &state, 0);
		if (WIFEXITED(state) && read(fds[0], &r, sizeof(r)) == sizeof(r)) printf("called %s %d %d\n", v[i], p, r);
		close(fds[0]); close(fds[1]);
	}
	return 0;
}
`

// passed returns the argument in a slot.
func passed(slot uint8) uint64 { return 0x500000000000 + 0x1001*uint64(slot) }

// In NVIDIA's own libraries, every row finds its functions, none at a dear place where the
// simulated ones have a cheap one. For every function that can be called without a GPU, calls have
// their arguments and the result that the caller got, which is an error.
func TestNVIDIALibraries(t *testing.T) {
	testkit.NeedBPF(t)
	testkit.NeedTool(t, "gcc")
	dir := t.TempDir()
	caller := filepath.Join(dir, "caller")
	if err := os.WriteFile(caller+".c", []byte(nvidiaCaller), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-w", "-o", caller, caller+".c", "-ldl").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	for name, lib := range map[string]events.Library{"libcudart.so": events.LibCudart, "libcuda.so": events.LibCuda} {
		for _, path := range testkit.NVIDIALibraries(t, name) {
			t.Run(filepath.Base(path), func(t *testing.T) { tryLibrary(t, caller, path, lib) })
		}
	}
}

func tryLibrary(t *testing.T, caller, path string, lib events.Library) {
	rows, exported := rowsOf(t, path, lib)
	tr := tracer(t, probes.Options{SamplingRate: 1, NoLedger: true})
	args := []string{path}
	for symbol := range rows {
		args = append(args, symbol)
	}
	child := testkit.Start(t, exec.Command(caller, args...))
	child.Line("ready")
	if err := tr.Trace(uint32(child.PID()), probes.Target{Follow: true}); err != nil {
		t.Fatal(err)
	}
	a := attach(t, tr, path, lib)
	if len(rows) < 150 || a.Probes < len(rows)*9/10 || a.Stepped > a.Probes/10 {
		t.Errorf("%d probes for %d symbols with rows, %d of them cost a second trap", a.Probes, len(rows), a.Stepped)
	}
	child.Send("go")
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	called := compareResults(t, drain(t, tr), child.Stdout(), rows)
	t.Logf("%d probes, %d of %d functions have rows, %d of these can be called here; %d have none", a.Probes, len(rows), exported, called, len(a.Unprobed))
	if called < len(rows)*3/4 {
		t.Errorf("only %d of %d functions could be called", called, len(rows))
	}
	for reason, n := range dropped(t, tr) {
		if reason != "text-left-out" && reason != "thinned" { // the passed names are no addresses
			t.Errorf("%d drops for %s", n, reason)
		}
	}
}

// rowsOf returns the rows of a library's functions by symbol, and the number of all functions.
func rowsOf(t *testing.T, path string, lib events.Library) (rows map[string]*events.Row, exported int) {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF && elf.ST_TYPE(s.Info) == elf.STT_FUNC {
			there[s.Name] = true
		}
	}
	version := 12
	if strings.Contains(path, ".so.11") {
		version = 11
	}
	rows = map[string]*events.Row{}
	for i := range events.Catalog {
		for _, s := range events.Catalog[i].Exports() {
			if r := &events.Catalog[i]; r.Lib == lib && there[s.Name] && s.In(version) {
				rows[s.Name] = r
			}
		}
	}
	return rows, len(there)
}

// compareResults compares the caller's report with the records, and returns the number of functions
// that it called and survived.
func compareResults(t *testing.T, saw []events.Call, said string, rows map[string]*events.Row) (called int) {
	t.Helper()
	byPID := map[uint32][]events.Call{}
	for _, c := range saw {
		if c.Parent == 0 {
			byPID[c.PID] = append(byPID[c.PID], c)
		}
	}
	for line := range strings.Lines(said) {
		var symbol string
		var pid uint32
		var result int32
		if n, _ := fmt.Sscanf(line, "called %s %d %d", &symbol, &pid, &result); n != 3 {
			continue
		}
		called++
		calls := byPID[pid]
		if len(calls) != 3 {
			t.Errorf("%s: saw %d calls, want 3", symbol, len(calls))
			continue
		}
		for _, c := range calls {
			checkPassed(t, symbol, rows[symbol], &c)
		}
		if c := &calls[2]; c.Flags&events.CallUnmeasured == 0 && c.Result != result {
			t.Errorf("%s returned %d, the caller got %d", symbol, c.Result, result)
		}
	}
	return called
}

// checkPassed compares the recorded arguments of a call with those passed.
func checkPassed(t *testing.T, symbol string, row *events.Row, c *events.Call) {
	t.Helper()
	if c.Op != row.Op {
		t.Errorf("%s is a call of %v, want %v", symbol, c.Op, row.Op)
		return
	}
	keep, tag, err := row.Rules(events.AMD64)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range append(keep, tag) {
		got := uint64(c.Tag)
		if i < len(keep) {
			got = c.Args[i]
		}
		want := passed(r.Slot)
		if r.Bytes == 4 || i == len(keep) {
			want = uint64(uint32(want))
		}
		if r.Take == events.TakeSlot && got != want {
			t.Errorf("%s: value %d is %#x, want %#x", symbol, i, got, want)
		}
	}
}
