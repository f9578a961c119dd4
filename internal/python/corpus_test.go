package python_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ingero/internal/python"
	"ingero/internal/testkit"
)

// Each stack of the kernel's walker matches what the program saw at that call: every function, file
// and line.
func TestKernelStacks(t *testing.T) {
	for _, version := range testkit.PythonVersions(t) {
		t.Run(version, func(t *testing.T) {
			program := testkit.NeedPython(t, version)
			lib, dir := cudart(t), t.TempDir()
			k := watch(t, load(t, nil), lib, "cudaGetErrorString")
			c := testkit.Start(t, exec.Command(program, "testdata/corpus.py", dir, lib, "cudaGetErrorString"))
			c.Line("ready")
			p, _ := find(t, c.PID())
			t.Logf("CPython %s in %s, offsets: %s", p.Version, filepath.Base(p.Path), p.Source)
			if p.Version.String() != version {
				t.Errorf("version = %s, want %s", p.Version, version)
			}
			k.tell(c.PID(), p)
			c.Send("go")
			pid, err := strconv.Atoi(strings.TrimPrefix(c.Line("spawned "), "spawned "))
			if err != nil {
				t.Fatal(err)
			}
			child, _ := find(t, pid)
			k.tell(pid, child)
			if err := os.WriteFile(filepath.Join(dir, "go."+strconv.Itoa(pid)), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			c.Line("done")
			want := testkit.PythonTruth(t, dir)
			k.wait(len(want))
			compare(t, k, want)
			c.Send("end")
		})
	}
}

func compare(t *testing.T, k *kernel, want map[testkit.PythonCall][]string) {
	t.Helper()
	codes := k.codes()
	frames, wrong, cut := 0, 0, 0
	for _, s := range k.all() {
		key := testkit.PythonCall{PID: s.pid, Number: s.arg}
		w, ok := want[key]
		if !ok {
			t.Errorf("a stack of a call that was not made: %v", key)
			continue
		}
		delete(want, key)
		got := shown(codes.Resolve(s.pid, s.epoch, s.frames))
		frames += len(got)
		if s.end == python.EndCut && len(w) > len(got) && len(got) > 100 {
			cut++
			w = w[:len(got)]
		} else if s.end != python.EndOK {
			t.Errorf("%v: the walk ended with %q", key, s.end)
		}
		if !slices.Equal(got, w) {
			if wrong++; wrong <= 5 {
				t.Errorf("%v:\n got %s\nwant %s", key, strings.Join(got, "\n     "), strings.Join(w, "\n     "))
			}
		}
	}
	t.Logf("%d stacks, %d frames, %d wrong, %d cut at %d frames", len(k.all()), frames, wrong, cut, python.MaxFrames)
	if wrong > 5 {
		t.Errorf("%d stacks are wrong", wrong)
	}
	if len(want) > 0 {
		t.Errorf("%d calls have no stack", len(want))
	}
	for _, err := range k.bad {
		t.Error(err)
	}
	if cut == 0 {
		t.Error("no stack was deeper than what is taken")
	}
}
