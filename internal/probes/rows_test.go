package probes_test

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ingero/internal/decode"
	"ingero/internal/probes"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// modes lists the ways to link; each is forced in turn.
var modes = []probes.Mode{probes.ModeSession, probes.ModeMulti, probes.ModePerf}

// libraryRows moves every row into one library, as the stubs have only one.
func libraryRows(rows []events.Row) []events.Row {
	out := append([]events.Row(nil), rows...)
	for i := range out {
		out[i].Lib = events.LibCudart
	}
	return out
}

// tracer opens a tracer for the duration of the test. Unless the options say otherwise, it thins
// calls of any duration: on a busy machine any call may take long.
func tracer(t testing.TB, o probes.Options) *probes.Tracer {
	t.Helper()
	o.Long = cmp.Or(o.Long, time.Hour)
	tr, err := probes.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	})
	return tr
}

// gcc runs the compiler.
func gcc(t testing.TB, args ...string) {
	t.Helper()
	testkit.NeedTool(t, "gcc")
	if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("gcc %v: %v\n%s", args, err, out)
	}
}

// polls compiles a program of testdata, and the library in which it polls.
func polls(t testing.TB, name string) (library, program string) {
	t.Helper()
	dir := t.TempDir()
	library, program = filepath.Join(dir, "libpoll.so"), filepath.Join(dir, name)
	gcc(t, "-O2", "-shared", "-fPIC", "-Wl,-Bsymbolic", "-o", library, "testdata/poll_lib.c")
	gcc(t, "-O1", "-o", program, "testdata/"+name+".c", "-L"+dir, "-lpoll", "-Wl,-rpath,"+dir)
	return library, program
}

// attach attaches probes to a library for the duration of the test.
func attach(t testing.TB, tr *probes.Tracer, path string, lib events.Library, pids ...uint32) *probes.Attached {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	a, err := tr.Attach(probes.Object{Path: path, Name: path, File: f, Lib: lib}, pids...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

// drain returns the calls that have arrived.
func drain(t testing.TB, tr *probes.Tracer) []events.Call {
	t.Helper()
	var batch tick.Batch
	tr.Drain(1<<30, func(b []byte) {
		if err := decode.Record(&batch, b, decode.Clock{}); err != nil {
			t.Error(err)
		}
	})
	return batch.Calls
}

// trace runs the stubs' caller under a tracer, and returns the caller's report and the records.
func trace(t *testing.T, s *testkit.Stubs, o probes.Options) (said []testkit.StubCall, saw []events.Call, pid uint32) {
	t.Helper()
	tr := tracer(t, o)
	child := testkit.Start(t, exec.Command(s.Caller))
	child.Line("ready")
	pid = uint32(child.PID())
	if err := tr.Trace(pid, probes.Target{}); err != nil {
		t.Fatal(err)
	}
	attach(t, tr, s.Library, events.LibCudart)
	child.Send("go")
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	return stubCalls(child), drain(t, tr), pid
}

// compare returns the differences between a call's record and the call.
func compare(t *testing.T, s *testkit.Stubs, row *events.Row, said testkit.StubCall, failed bool, pid uint32, saw []events.Call) (wrong []string) {
	var c *events.Call
	for i := range saw {
		if saw[i].Op == row.Op && saw[i].Start >= said.Before && saw[i].Start <= said.After {
			if c != nil {
				return []string{"seen twice"}
			}
			c = &saw[i]
		}
	}
	if c == nil {
		return []string{"not seen"}
	}
	check := func(what string, got, want any) {
		if got != want {
			wrong = append(wrong, fmt.Sprintf("%s = %#x, want %#x", what, got, want))
		}
	}
	check("pid", c.PID, pid)
	check("tid", c.TID, said.TID)
	for i, x := range row.Keep {
		_, x = events.SplitRole(x)
		check(x, c.Args[i], s.Want(t, row, x, failed))
	}
	_, tag := events.SplitRole(row.Tag)
	check("tag "+tag, c.Tag, uint32(s.Want(t, row, tag, failed)))
	if row.EntryOnly {
		check("flags", c.Flags, events.CallUnmeasured)
		return wrong
	}
	flags, result := events.CallFlags(0), int32(0)
	if failed {
		flags, result = events.CallFailed, s.Result(row)
	}
	// Flags of the scheduler depend on the machine, not on the row.
	check("flags", c.Flags&^(events.CallLedgerPartial|events.CallGapPartial|events.CallUnseen|events.CallGraphs|events.CallNoGraphs), flags)
	check("result", c.Result, result)
	if c.Duration < testkit.StubSpin || c.End() > said.After {
		wrong = append(wrong, fmt.Sprintf("duration = %d ns, want %d to %d", c.Duration, testkit.StubSpin, said.After-said.Before))
	}
	if sum := c.OnCPU + c.Runnable + c.Blocked; sum != c.Duration {
		wrong = append(wrong, fmt.Sprintf("parts sum to %d ns of %d", sum, c.Duration))
	}
	return wrong
}

// differences compares all calls and returns the differences, by symbol.
func differences(t *testing.T, s *testkit.Stubs, said []testkit.StubCall, saw []events.Call, pid uint32) map[string][]string {
	t.Helper()
	if want := 2 * len(s.Rows); len(said) != want {
		t.Fatalf("the caller made %d calls, want %d", len(said), want)
	}
	out, seen := map[string][]string{}, map[string]bool{}
	for _, c := range said {
		if wrong := compare(t, s, s.Rows[c.Symbol], c, seen[c.Symbol], pid, saw); wrong != nil {
			out[c.Symbol] = append(out[c.Symbol], wrong...)
		}
		seen[c.Symbol] = true
	}
	if wrong := wrongGraphs(saw); wrong != nil {
		out["graphs"] = wrong
	}
	return out
}

// wrongGraphs returns the calls of a thread that do not say, or wrongly, whether a graph is among the
// launches before them.
func wrongGraphs(saw []events.Call) (wrong []string) {
	saw = slices.Clone(saw)
	slices.SortFunc(saw, func(a, b events.Call) int { return cmp.Compare(a.Start, b.Start) })
	launched := events.CallNoGraphs
	for i := range saw {
		c := &saw[i]
		switch {
		case c.Flags&events.CallNested != 0:
		case c.Op.Row().Class == events.ClassLaunch:
			if c.Op.Source() == events.SourceGraph {
				launched = events.CallGraphs
			}
		case c.Flags&events.CallUnmeasured == 0:
			if got := c.Flags & (events.CallGraphs | events.CallNoGraphs); got != launched {
				wrong = append(wrong, fmt.Sprintf("%s: flags %d, want %d", c.Op, got, launched))
			}
			launched = events.CallNoGraphs
		}
	}
	return wrong
}

// stubVersion is the stubs' library version, if a test has no other.
const stubVersion = 12

// oneOfAKind returns a minimal set of rows with all ways of reading a value.
func oneOfAKind(t *testing.T, rows []events.Row) (out []events.Row) {
	t.Helper()
	seen := map[string]bool{}
	for _, r := range rows {
		i := slices.IndexFunc(r.Exports(), func(s events.Symbol) bool { return s.In(stubVersion) })
		if i < 0 {
			continue
		}
		keep, tag, err := r.Rules(events.AMD64)
		if err != nil {
			t.Fatal(err)
		}
		kinds := []string{fmt.Sprint("row ", r.EntryOnly, r.Text, r.Class == events.ClassLaunch)}
		for _, u := range append(keep, tag) {
			kinds = append(kinds, fmt.Sprint(u.Take, u.Bytes, u.Slot, u.Off > 0))
		}
		if slices.ContainsFunc(kinds, func(k string) bool { return !seen[k] }) {
			for _, k := range kinds {
				seen[k] = true
			}
			r.Symbols = []string{r.Exports()[i].Name}
			out = append(out, r)
		}
	}
	return out
}

// Every argument, result and duration of every symbol of every row is right, in every mode, on the
// running kernel. Links for each symbol take 0.1 s each to close, so that mode has one row of each
// kind.
func TestEveryRowOnThisKernel(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	all := libraryRows(events.Catalog)
	stubs := testkit.MakeStubs(t, all, stubVersion)
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			rows, stubs := all, stubs
			if mode == probes.ModePerf {
				rows = oneOfAKind(t, all)
				stubs = testkit.MakeStubs(t, rows, stubVersion)
			}
			said, saw, pid := trace(t, stubs, probes.Options{Mode: mode, Rows: rows})
			for symbol, wrong := range differences(t, stubs, said, saw, pid) {
				t.Errorf("%s: %s", symbol, strings.Join(wrong, "; "))
			}
		})
	}
}

// The values a function keeps depend on the version of the library that exports it.
func TestRowsOfOtherVersions(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	var versioned []events.Row
	for _, r := range libraryRows(events.Catalog) {
		if strings.Contains(strings.Join(r.Symbols, " "), "@") {
			versioned = append(versioned, r)
		}
	}
	for _, version := range []int{11, 13} {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			stubs := testkit.MakeStubs(t, versioned, version)
			said, saw, pid := trace(t, stubs, probes.Options{Rows: versioned})
			for symbol, wrong := range differences(t, stubs, said, saw, pid) {
				t.Errorf("%s: %s", symbol, strings.Join(wrong, "; "))
			}
		})
	}
}

// The comparison above finds faults: the kernel gets a row with a fault, the comparison the sound
// one.
func TestRowsTestSeesFaults(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	op, _ := events.OpByName("cudaMemcpyAsync")
	sound := *op.Row()
	sound.Lib = events.LibCudart
	// As an argument, since a tag is cut to 32 bits with and without a mask.
	sound.Keep, sound.Tag = []string{"count", "dst", "kind", "stream"}, ""
	stubs := testkit.MakeStubs(t, []events.Row{sound}, stubVersion)
	for _, tt := range []struct {
		name   string
		params string
		entry  bool
		want   string // in the differences; "" for none
	}{
		{name: "wrong slot", params: "src, dst, count, kind int, stream", want: "dst = "},
		{name: "missing mask", params: "dst, src, count, kind, stream", want: "kind = 0xdeadbeef"},
		{name: "lost return", params: sound.Params, entry: true, want: "flags = "},
		{name: "no fault", params: sound.Params},
	} {
		t.Run(tt.name, func(t *testing.T) {
			broken := sound
			broken.Params = tt.params
			said, saw, pid := trace(t, stubs, probes.Options{Rows: []events.Row{broken}, EntryOnly: tt.entry})
			wrong := differences(t, stubs, said, saw, pid)
			if got := fmt.Sprint(wrong); (tt.want == "") != (len(wrong) == 0) || !strings.Contains(got, tt.want) {
				t.Errorf("differences = %s, want %q", got, tt.want)
			}
		})
	}
}
