package session_test

import (
	"encoding/json"
	"maps"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ingero/internal/probes"
	"ingero/internal/session"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
	"ingero/sim"
)

// kernels builds the program that launches GPU kernels, and the libraries that it loads.
func kernels(t testing.TB) (program string, stack sim.Stack) {
	t.Helper()
	testkit.NeedBPF(t)
	testkit.NeedTool(t, "gcc")
	dir := t.TempDir()
	stack, err := sim.Extract(filepath.Join(dir, "sim"))
	if err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(dir, "kernels")
	if out, err := exec.Command("gcc", "-O1", "-rdynamic", "-o", program, "testdata/kernels.c", "-ldl").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	return program, stack
}

// nameRows returns the rows that the program calls.
func nameRows() []events.Row {
	return testkit.OpRows("cudaLaunchKernel", "__cudaLaunchKernel", "cuLaunchKernel", "__cudaRegisterFunction",
		"__cudaUnregisterFatBinary", "__cudaGetKernel", "cuModuleGetFunction", "cuModuleUnload", "cuLaunchKernelEx",
		"cuLibraryGetKernel", "cuLibraryUnload", "cuKernelGetFunction")
}

// launches adds up the last tick's launches: by name, and by the reason for no name.
func launches(last *tick.Tick) (named map[string]uint64, why map[events.NoName]uint64) {
	named, why = map[string]uint64{}, map[events.NoName]uint64{}
	for _, l := range last.Launches {
		for _, f := range l.Top {
			named[f.Function] += f.Launches
		}
		for _, u := range l.Unnamed {
			why[u.Why] += u.Launches
		}
		if l.Pending > 0 {
			why[0] += l.Pending
		}
	}
	return named, why
}

const (
	addKernel   = "_ZN3gpu3addIfEEvPT_i"
	scaleKernel = "_Z5scalePfi"
)

var longKernel = strings.Repeat("l", 3000)

func TestNamesOfLaunches(t *testing.T) {
	program, stack := kernels(t)
	three := map[string]uint64{addKernel: 100, scaleKernel: 100, longKernel: 100}
	twice := map[string]uint64{addKernel: 200, scaleKernel: 200, longKernel: 200}
	for _, tt := range []struct {
		name     string
		steps    string
		reported []int // functions known by the time of each wait
		want     map[string]uint64
	}{
		{"registered", "wait register launch wait", []int{3}, three},
		{"handle of a kernel", "wait register get wait", []int{1}, map[string]uint64{addKernel: 100}},
		{"attached late", "register launch wait launch wait", []int{3}, map[string]uint64{addKernel: 100, scaleKernel: 100, "plain_kernel": 100}},
		{"forked", "wait register fork launch wait", []int{3}, three},
		{"another program", "wait register launch wait exec register launch wait", []int{3, 6}, twice},
		{"registered again", "wait register launch wait unregister again wait", []int{3, 4},
			map[string]uint64{addKernel: 100, scaleKernel: 100, longKernel: 100, "_Z5againv": 100}},
		{"of a module", "wait module wait", []int{2}, map[string]uint64{"_Z6jittedILi4EEvv": 100, "triton_poi_fused_0": 100}},
		{"of a module, the handle again", "wait module wait swap wait", []int{2, 3},
			map[string]uint64{"_Z6jittedILi4EEvv": 100, "triton_poi_fused_0": 100, "_Z7swappedv": 100}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			testkit.LeakCheck(t)
			child := testkit.Start(t, exec.Command(program, append([]string{stack.Dir}, strings.Fields(tt.steps)...)...))
			child.Line("ready")
			r := begin(t, session.LiveOptions{Select: pids(child), Probes: probes.Options{Rows: nameRows()}})
			for _, n := range tt.reported {
				child.Send("go")
				child.Line("ready")
				testkit.Eventually(t, "names of what was launched", func() bool {
					r.mu.Lock()
					defer r.mu.Unlock()
					return len(r.functions) >= n
				})
			}
			child.Send("end")
			if err := child.Wait(); err != nil {
				t.Fatal(err)
			}
			r.end(t)
			named, why := launches(r.last)
			if !maps.Equal(named, tt.want) || len(why) > 0 {
				t.Errorf("launches %v, without name %v, want %v", short(named), why, short(tt.want))
			}
		})
	}
}

func short(m map[string]uint64) map[string]uint64 {
	out := map[string]uint64{}
	for k, v := range m {
		out[k[:min(len(k), 40)]] = v
	}
	return out
}

// Launches of a program that ends at once have names: the names of the first registered functions
// arrive with their registrations.
func TestNamesOfAShortRun(t *testing.T) {
	t.Parallel()
	program, stack := kernels(t)
	for _, steps := range []string{"wait register launch", "wait register fork launch", "wait register launch unregister again", "wait module", "wait register exec register launch"} {
		t.Run(steps, func(t *testing.T) {
			child := testkit.Start(t, exec.Command(program, append([]string{stack.Dir}, strings.Fields(steps)...)...))
			child.Line("ready")
			r := begin(t, session.LiveOptions{Select: pids(child), Probes: probes.Options{Rows: nameRows()}})
			child.Send("go")
			if err := child.Wait(); err != nil {
				t.Fatal(err)
			}
			r.end(t)
			if named, why := launches(r.last); len(named) < 2 || len(why) > 0 {
				t.Errorf("launches %v, without name %v", short(named), why)
			}
		})
	}
}

// A handle that was made before the attach and is no host function has no name, and the counts say
// why.
func TestNamesThatCannotBeHad(t *testing.T) {
	t.Parallel()
	program, stack := kernels(t)
	child := testkit.Start(t, exec.Command(program, stack.Dir, "module", "wait", "more", "wait"))
	child.Line("ready")
	r := begin(t, session.LiveOptions{Select: pids(child), Probes: probes.Options{Rows: nameRows()}})
	child.Send("go")
	child.Line("ready")
	child.Send("go")
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	r.end(t)
	named, why := launches(r.last)
	if len(named) > 0 || why[events.NoNameUnseen]+why[events.NoNameEnded] != 100 {
		t.Errorf("launches %v, without name %v, want 100 whose handle was made before", named, why)
	}
}

// Each launch of programs like real frameworks has its right name, by the programs' own counts.
func TestNamesOfFrameworks(t *testing.T) {
	t.Parallel()
	_, stack := kernels(t)
	for _, args := range []string{"torch", "torch --graph", "cuda13", "jit --like jax", "jit --like triton", "static", "static-stripped"} {
		t.Run(args, func(t *testing.T) {
			words := strings.Fields(args)
			child := testkit.Start(t, exec.Command(stack.Program(words[0]), append(words[1:], "--hold")...))
			child.Line("ready")
			r := begin(t, session.LiveOptions{Select: pids(child), Probes: probes.Options{Rows: events.Catalog}})
			child.Send("go")
			if err := child.Wait(); err != nil {
				t.Fatal(err)
			}
			r.end(t)
			lines := strings.Split(strings.TrimSpace(child.Stdout()), "\n")
			var said struct {
				Launches map[string]uint64 `json:"launches"`
			}
			if err := json.Unmarshal([]byte(lines[len(lines)-1]), &said); err != nil || len(said.Launches) == 0 {
				t.Fatalf("%v: %v", lines, err)
			}
			named, why := launches(r.last)
			if !maps.Equal(named, said.Launches) || len(why) > 0 {
				t.Errorf("launches %v, without name %v, want %v", short(named), why, short(said.Launches))
			}
		})
	}
}
