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

// A recording of a program that names its steps by NVTX is told with these steps, as many
// and as long as they were by the program's own clock.
func TestExplainOfNamedSteps(t *testing.T) {
	b := newBench(t)
	cmd := exec.Command(b.stack.Program("train"), "--hold", "--steps", "300", "--kernel-us", "100", "--alloc-every", "0", "--nvtx", "step #", "--nvtx-junk")
	cmd.Env = append(os.Environ(), "INGERO_SIM_SYNC=block")
	c := testkit.Start(t, cmd)
	c.Line("ready")
	trace := b.ingero("trace", "--db", b.db(), "--pid", pid(c))
	b.tracing(1)
	c.Say("go")
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
	var told struct {
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
	if err := json.Unmarshal([]byte(text), &told); err != nil || len(told.Processes) != 1 {
		t.Fatalf("%v, %s\n%s", err, stderr, text)
	}
	l := told.Processes[0].Breakdown.Loop
	if l.Range != "step #" || l.Steps+1 < said.Ranges || l.Steps > said.Ranges || l.P50 < said.P50*19/20 || l.P50 > said.P50*21/20 {
		t.Errorf("%+v, want %d steps of %v", l, said.Ranges, said.P50)
	}
}
