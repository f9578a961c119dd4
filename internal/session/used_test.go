package session_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ingero/internal/probes"
	"ingero/internal/session"
	"ingero/internal/testkit"
	"ingero/pkg/events"
	"ingero/sim"
)

// callsOf returns the number of calls of an operation up to the last tick.
func (r *running) callsOf(op string) (n uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		return 0
	}
	for i := range r.last.Ops {
		if r.last.Ops[i].Op.String() == op {
			n += r.last.Ops[i].Sum.Calls
		}
	}
	return n
}

// With one link per probe and few links, functions that programs name have probes, also those that
// files loaded later name. A report lists the rest.
func TestUsedFunctionsFirst(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	stack, err := sim.Extract(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	later := filepath.Join(dir, "liblater.so")
	source := filepath.Join(dir, "later.c")
	if err := os.WriteFile(source, []byte("extern int cudaMemGetInfo(void *, void *); int later(void) { long a, b; return cudaMemGetInfo(&a, &b); }"), 0o600); err != nil {
		t.Fatal(err)
	}
	gcc(t, "-shared", "-fPIC", "-o", later, source, stack.Libcudart)
	gcc(t, "-o", dir+"/uses", "testdata/uses.c", stack.Libcudart, "-ldl")
	cmd := exec.Command(dir+"/uses", later)
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+stack.Dir)
	child := testkit.Start(t, cmd)
	child.Line("ready")
	r := begin(t, session.LiveOptions{Select: pids(child), Probes: probes.Options{Mode: probes.ModePerf, Rows: events.Catalog}})
	call := func(what string) {
		child.Send(what)
		child.Line("called")
	}
	call("imported")
	call("named")
	call("load")
	testkit.Eventually(t, "calls of a function that a file names which was loaded later", func() bool {
		call("later")
		return r.callsOf("cudaMemGetInfo") > 0
	})
	before := r.callsOf("cudaMemGetInfo") / 100 * 100 // the complete rounds
	call("later")
	child.CloseStdin()
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	r.end(t)
	for op, want := range map[string]uint64{"cudaStreamQuery": 100, "cudaEventQuery": 100} {
		if got := r.callsOf(op); got != want {
			t.Errorf("%d calls of %s, want %d", got, op, want)
		}
	}
	if got := r.callsOf("cudaMemGetInfo"); got < before+100 {
		t.Errorf("%d calls of cudaMemGetInfo, of which the last 100 are none", got)
	}
	r.saysWhatWasLeft(t)
}

// saysWhatWasLeft checks the reports on libraries in which some functions have no probes.
func (r *running) saysWhatWasLeft(t *testing.T) {
	t.Helper()
	said := map[string]string{}
	for _, p := range r.last.Reports {
		if p.Kind == "left-out" || p.Kind == "unused-left-out" {
			said[filepath.Base(p.Object)] = p.Why
		}
	}
	for i := range r.last.Libraries {
		l := &r.last.Libraries[i]
		why, reported := said[filepath.Base(l.Path)]
		if l.Probes > 150 { // a kernel that detaches links quickly
			if reported {
				t.Errorf("%s has %d probes, and the report says: %s", l.Path, l.Probes, why)
			}
			continue
		}
		if !strings.Contains(why, " functions have probes") || !strings.HasSuffix(why, "every function that programs use has one") {
			t.Errorf("%s has %d probes, and the report says: %q", l.Path, l.Probes, why)
		}
	}
}
