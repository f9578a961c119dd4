package probes_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"ingero/internal/decode"
	"ingero/internal/probes"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// textCaller looks up names of the lengths in its arguments, -1 for an invalid address.
const textCaller = `#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int cuModuleGetFunction(void **f, void *m, const char *name);
int main(int c, char **v)
{
	puts("ready"); fflush(stdout); getchar();
	for (int i = 1; i < c; i++) {
		int n = atoi(v[i]);
		char *name = n < 0 ? (char *)8 : malloc(n + 1);
		void *f = 0;
		if (n >= 0) { memset(name, 'a' + i, n); name[n] = 0; }
		cuModuleGetFunction(&f, 0, name);
	}
	return 0;
}
`

// A name precedes its call, complete up to the bound; an unreadable one is counted and affects
// nothing else.
func TestTexts(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	dir := t.TempDir()
	library, program := filepath.Join(dir, "libcuda.so"), filepath.Join(dir, "caller")
	compile(t, library, `int cuModuleGetFunction(void **f, void *m, const char *name) { *f = (void *)name; return 0; }`)
	if err := os.WriteFile(program+".c", []byte(textCaller), 0o644); err != nil {
		t.Fatal(err)
	}
	gcc(t, "-o", program, program+".c", library)
	lengths := []int{1, 0, 254, 255, 256, -1, 4094, 4095, 4096, 9000, -1, 3}
	var args []string
	for _, n := range lengths {
		args = append(args, strconv.Itoa(n))
	}
	for _, mode := range modes {
		for _, entry := range []bool{false, true} {
			t.Run(string(mode)+"/entry="+strconv.FormatBool(entry), func(t *testing.T) {
				tr := tracer(t, probes.Options{Mode: mode, Rows: testkit.OpRows("cuModuleGetFunction"), EntryOnly: entry})
				child := testkit.Start(t, exec.Command(program, args...))
				child.Line("ready")
				if err := tr.Trace(uint32(child.PID()), probes.Target{}); err != nil {
					t.Fatal(err)
				}
				attach(t, tr, library, events.LibCuda)
				child.Send("go")
				if err := child.Wait(); err != nil {
					t.Fatal(err)
				}
				checkTexts(t, tr, lengths)
				if d := dropped(t, tr); d["text-left-out"] != 2 || d["ring-full"]+d["orphan-return"] > 0 {
					t.Errorf("drops: %v, want 2 texts", d)
				}
			})
		}
	}
}

// checkTexts compares the texts with the lengths of the passed names, and each with the call that
// follows it.
func checkTexts(t *testing.T, tr *probes.Tracer, lengths []int) {
	t.Helper()
	var batch tick.Batch
	var pending *events.Text // no call has followed it yet
	i := 0
	tr.Drain(1<<30, func(b []byte) {
		calls, texts := len(batch.Calls), len(batch.Texts)
		if err := decode.Record(&batch, b, decode.Clock{}); err != nil {
			t.Error(err)
		}
		if len(batch.Texts) > texts {
			pending = &batch.Texts[texts]
		}
		if len(batch.Calls) == calls {
			return
		}
		c, n := &batch.Calls[calls], lengths[i]
		switch {
		case n < 0 && pending != nil:
			t.Errorf("name %d cannot be read, and is %q", i, pending.Text)
		case n >= 0 && pending == nil:
			t.Errorf("name %d, of %d bytes, is missing", i, n)
		case n >= 0:
			want := events.Text{Time: c.Start, PID: c.PID, TID: c.TID, Op: c.Op, Cut: n > events.MaxText,
				Text: strings.Repeat(string(rune('a'+i+1)), min(n, events.MaxText))}
			if *pending != want {
				t.Errorf("name %d: %d bytes %+.100v, want %d %+.100v", i, len(pending.Text), *pending, n, want)
			}
		}
		pending = nil
		i++
	})
	if i != len(lengths) {
		t.Errorf("%d calls, want %d", i, len(lengths))
	}
}

// A result "not ready" is not a failure.
func TestPendingIsNoFailure(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	rows := libraryRows(testkit.OpRows("cudaEventQuery", "ncclAllReduce", "cudaStreamSynchronize"))
	for i := range rows {
		if rows[i].Pending != 0 {
			rows[i].Pending = uint16(rows[i].Op)
		}
	}
	stubs := testkit.MakeStubs(t, rows, stubVersion) // whose second result is the row's number
	_, saw, _ := trace(t, stubs, probes.Options{Rows: rows})
	if len(saw) != 8 {
		t.Fatalf("%d calls, want 8", len(saw))
	}
	for i, c := range saw {
		failed := i%2 == 1 && c.Op.Row().Pending == 0
		if got := c.Flags&events.CallFailed != 0; got != failed || (c.Result != 0) != (i%2 == 1) {
			t.Errorf("%v returned %d, failed: %v, want %v", c.Op, c.Result, got, failed)
		}
	}
}
