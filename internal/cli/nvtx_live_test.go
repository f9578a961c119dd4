package cli

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"ingero/internal/testkit"
)

// namedSteps traces a program that names its steps by NVTX. It returns the number of steps and
// their median by the program's own clock, and the same values from ingero explain.
func (b *bench) namedSteps() (want, got stepTimes) {
	t := b.t
	t.Helper()
	cmd := exec.Command(b.stack.Program("train"), "--hold", "--steps", "300", "--kernel-us", "100", "--alloc-every", "0", "--nvtx", "step #", "--nvtx-junk")
	cmd.Env = append(os.Environ(), "INGERO_SIM_SYNC=block")
	c := testkit.Start(t, cmd)
	c.Line("ready")
	trace := b.ingero("trace", "--max-overhead", "0", "--db", b.db(), "--pid", pid(c))
	b.tracing(1)
	c.Send("go")
	if _, stderr, code := finish(t, trace); code != 0 {
		t.Fatalf("trace: code %d:\n%s", code, stderr)
	}
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	var said struct {
		Ranges uint64        `json:"ranges"`
		P50    time.Duration `json:"range_p50_ns"`
	}
	if err := json.Unmarshal([]byte(c.Stdout()[strings.Index(c.Stdout(), "{"):]), &said); err != nil {
		t.Fatal(err)
	}
	text, stderr, code := b.output("explain", "--db", b.db())
	if code != 0 || !strings.Contains(strings.Join(strings.Fields(text), " "), `NVTX range "step #"`) {
		t.Errorf("code %d, %s\n%s", code, stderr, text)
	}
	if strings.ContainsAny(text, "\x1b\a") {
		t.Errorf("%q", text)
	}
	text, stderr, _ = b.output("explain", "--db", b.db(), "--json")
	var reported struct {
		Processes []struct {
			Breakdown struct {
				Loop struct {
					Range string        `json:"nvtx_range"`
					Steps uint64        `json:"steps"`
					P50   time.Duration `json:"p50_ns"`
				} `json:"loop"`
			} `json:"breakdown"`
		} `json:"processes"`
	}
	if err := json.Unmarshal([]byte(text), &reported); err != nil || len(reported.Processes) != 1 {
		t.Fatalf("%v, %s\n%s", err, stderr, text)
	}
	l := reported.Processes[0].Breakdown.Loop
	if l.Range != "step #" {
		t.Errorf("range %q", l.Range)
	}
	return stepTimes{said.Ranges, said.P50}, stepTimes{l.Steps, l.P50}
}

// stepTimes is a number of steps and their median duration.
type stepTimes struct {
	steps uint64
	p50   time.Duration
}

// A report has every step that a program names by NVTX; the last one may lack its end.
func TestExplainOfNamedSteps(t *testing.T) {
	want, got := newBench(t).namedSteps()
	if got.steps+1 < want.steps || got.steps > want.steps {
		t.Errorf("%d steps, want %d", got.steps, want.steps)
	}
}
