//go:build interop

package python_test

import (
	"os/exec"
	"strings"
	"testing"

	"ingero/internal/python"
	"ingero/internal/testkit"
)

// A thread that is in two interpreters gets no Python frames, and the reason EndAmbiguous; other
// threads get theirs.
func TestSubinterpreters(t *testing.T) {
	lib := loopLib(t)
	k := watch(t, load(t, nil), lib, "probed")
	c := testkit.Start(t, exec.Command(testkit.NeedPython(t, "3.13"), "testdata/subinterp.py", lib))
	c.Line("ready")
	p, _ := find(t, c.PID())
	k.tell(c.PID(), p)
	c.Send("go")
	c.Line("done")
	testkit.Eventually(t, "five stacks", func() bool { return len(k.all()) >= 5 })
	codes := k.codes()
	for _, s := range k.all() {
		got := shown(codes.Resolve(s.pid, s.epoch, s.frames))
		switch {
		case s.arg == 2 && (s.end != python.EndAmbiguous || len(got) > 0):
			t.Errorf("inside the second: %v, %q", s.end, got)
		case s.arg == 1 && (s.end != python.EndOK || len(got) != 2 || !strings.HasPrefix(got[0], "beside at ")):
			t.Errorf("beside it: %v, %q", s.end, got)
		}
	}
}
