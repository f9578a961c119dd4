package python_test

import (
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"ingero/internal/python"
	"ingero/internal/testkit"
)

// A running process has other frames by the time user space looks, so the test only logs how often
// the walker is right. Its frames are always functions of the program.
func TestWalkerOfRunning(t *testing.T) {
	lib := loopLib(t)
	for _, version := range testkit.PythonVersions(t) {
		t.Run(version, func(t *testing.T) {
			k := watch(t, load(t, nil), lib, "probed")
			c := testkit.Start(t, exec.Command(testkit.NeedPython(t, version), "testdata/rate.py", lib))
			c.Line("ready")
			p, target := find(t, c.PID())
			w, err := python.NewWalker(target, p)
			if err != nil {
				t.Fatal(err)
			}
			k.tell(c.PID(), p)
			const looks = 2000
			var walked [][]python.Frame
			same := 0
			var done atomic.Bool
			k.each(func(s stack) {
				if len(walked) == looks {
					return
				}
				frames, _, _ := w.Walk(uint32(c.PID()))
				if slices.Equal(frames, s.frames) {
					same++
				}
				walked = append(walked, frames)
				done.Store(len(walked) == looks)
			})
			c.Send("go")
			testkit.Eventually(t, "all looks", done.Load)
			t.Logf("CPython %s: %d of %d stacks from user space were those of the call", version, same, looks)
			codes := k.codes()
			for _, frames := range walked {
				for _, f := range shown(codes.Resolve(uint32(c.PID()), p.Facts.Epoch, frames)) {
					name, rest, _ := strings.Cut(f, " at ")
					if !slices.Contains([]string{"<module>", "main", "one", "two", "three", "spin"}, name) || !strings.HasPrefix(rest, "/") {
						t.Fatalf("%q is no function of the program", f)
					}
				}
			}
		})
	}
}
