package probes_test

import (
	"os/exec"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/probes"
	"ingero/internal/testkit"
	"ingero/pkg/events"
)

// Calls of more threads than have an account are counted, not timed, and reported as that.
func TestMoreThreadsThanAccounts(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	library, program := leverProgram(t)
	const sync = "cudaStreamSynchronize"
	// Four threads make 50 rounds: two launches each, and a synchronization in every fifth.
	for _, x := range []struct {
		accounts, refused int
		want              map[string]account
	}{
		{2, 420, map[string]account{
			outer: {Calls: 400, Done: 200, Unmeasured: 200},
			inner: {Calls: 400, Unmeasured: 400, Nested: 200}, // without an account, its caller is unknown
			sync:  {Calls: 40, Done: 20, Unmeasured: 20},
		}},
		{4, 0, map[string]account{
			outer: {Calls: 400, Done: 400},
			inner: {Calls: 400, Unmeasured: 400, Nested: 400},
			sync:  {Calls: 40, Done: 40},
		}},
	} {
		tr := tracer(t, probes.Options{Rows: libraryRows(testkit.OpRows(outer, inner, sync)), NoLedger: true, MaxThreads: x.accounts})
		child := testkit.Start(t, exec.Command(program))
		child.Line("ready")
		if err := tr.Trace(uint32(child.PID()), probes.Target{}); err != nil {
			t.Fatal(err)
		}
		attach(t, tr, library, events.LibCudart)
		child.Send("")
		launched(child)
		if diff := cmp.Diff(x.want, accounts(t, tr)); diff != "" {
			t.Errorf("%d accounts (-want +got):\n%s", x.accounts, diff)
		}
		if got := dropped(t, tr)["too-many-threads"]; got != uint64(x.refused) {
			t.Errorf("%d accounts: %d calls have none, want %d", x.accounts, got, x.refused)
		}
	}
}
