package tapes

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ingero/internal/causal"
)

// missing maps rules without a tape to the reason, and to the text in internal/causal/testdata or the
// test in internal/causal that guards the rule instead.
var missing = map[string]struct{ why, guard string }{
	"driver-slow":    {"a wait in a GPU's device file needs a GPU", "driver-slow"},
	"cpu-stolen":     {"no hypervisor takes a CPU when it is told to", "stolen"},
	"sync-heavy":     {"it takes so many calls that a tape has a megabyte", "sync-heavy"},
	"copies-small":   {"it takes so many calls that a tape has a megabyte", "copies-small"},
	"gpu-behind":     {"it takes so many calls that a tape has two megabytes", "gpu-behind"},
	"memory-reclaim": {"the kernel of the machine found too much to give up each time", "reclaim"},
	"kv-preemption":  {"a tape of a server is large, and prefill-stall has one", "TestKVPreemption"},
	"slow-client":    {"a tape of a server is large, and prefill-stall has one", "TestSlowClient"},
	"frontend-slow":  {"a tape of a server is large, and prefill-stall has one", "TestFrontendSlow"},
	"scheduler-cpu":  {"a tape of a server is large, and prefill-stall has one", "TestSchedulerCPU"},
	"adapter-swap":   {"a tape of a server is large, and prefill-stall has one", "TestAdapterSwap"},
}

// quiet are the lab's families with tapes of healthy jobs or decoys.
var quiet = []string{"healthy", "cpu", "cuda", "graph", "disk", "memory", "threads", "net", "gpu", "nccl", "xid", "serving"}

// Each rule is the cause of a tape, and each family has a tape without a report.
func TestTapesCoverRulesAndFamilies(t *testing.T) {
	rules, silent := map[string]bool{}, map[string]bool{}
	for _, path := range all(t) {
		tp, _ := load(t, path)
		for i := range tp.Want {
			for _, c := range tp.Heard[len(tp.Heard)-1].Chains {
				if slices.Contains(tp.Want[i].Rules, c.Rule) {
					rules[c.Rule] = true
				}
			}
		}
		if len(tp.Want) == 0 {
			family, _, _ := strings.Cut(tp.Name, "/")
			silent[family] = true
		}
		if want := FileName(tp.Name); filepath.Base(path) != want {
			t.Errorf("the tape of %q is called %s, want %s", tp.Name, filepath.Base(path), want)
		}
	}
	for _, name := range causal.RuleNames() {
		switch _, listed := missing[name]; {
		case !rules[name] && !listed:
			t.Errorf("no tape is of %s", name)
		case rules[name] && listed:
			t.Errorf("there is a tape of %s, which is listed as missing", name)
		}
	}
	for name, m := range missing {
		file, line := "testdata/"+m.guard+".txt", "expect "+name+" "
		if strings.HasPrefix(m.guard, "Test") {
			file, line = "rule_"+strings.ReplaceAll(name, "-", "_")+"_test.go", "func "+m.guard+"("
		}
		text, err := os.ReadFile("../../internal/causal/" + file)
		if err != nil || !strings.Contains(string(text), line) {
			t.Errorf("%s has no %s instead of a tape: %v", name, m.guard, err)
		}
		if !slices.Contains(causal.RuleNames(), name) {
			t.Errorf("%s is listed as missing and is no rule", name)
		}
	}
	for _, family := range quiet {
		if !silent[family] {
			t.Errorf("no tape of the family %s is of a healthy job or a decoy", family)
		}
	}
}
