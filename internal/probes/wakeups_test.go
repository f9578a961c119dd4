package probes_test

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"ingero/internal/probes"
	"ingero/internal/testkit"
	"ingero/pkg/events"
)

// Who waits for records takes no thread: a thread in a system call keeps the runtime's monitor awake.
func TestWaitTakesNoThread(t *testing.T) {
	testkit.NeedBPF(t)
	tr := tracer(t, probes.Options{Rows: events.Catalog[:1]})
	var ended [2]error
	var work sync.WaitGroup
	for i, wait := range []func() error{tr.WaitLives, tr.WaitPressure} {
		work.Go(func() {
			for ended[i] == nil { // other tests may make records
				ended[i] = wait()
			}
		})
	}
	testkit.Eventually(t, "both to wait", func() bool {
		text := make([]byte, 1<<20)
		n := 0
		for stack := range strings.SplitSeq(string(text[:runtime.Stack(text, true)]), "\n\n") {
			if head, _, _ := strings.Cut(stack, "\n"); strings.Contains(stack, "(*wakeups).wait") && strings.Contains(head, "[IO wait") {
				n++
			}
		}
		return n == len(ended)
	})
	if err := tr.StopLives(); err != nil {
		t.Fatal(err)
	}
	work.Wait()
	for _, err := range append(ended[:], tr.WaitLives()) {
		if !errors.Is(err, os.ErrClosed) {
			t.Errorf("after the end: %v", err)
		}
	}
}
