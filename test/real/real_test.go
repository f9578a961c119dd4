//go:build real

package real

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ingero/pkg/events"
)

// clients are the programs, each with its output and its marked line.
var clients = []struct {
	name    string
	args    []string
	result  string
	op      string // the call at the marked line
	comment string
	n       int64
}{
	{"train.py", []string{"fork"}, `{"seen": 2880, "waits": 40, "device": "Simulated GPU"}`, "cudaStreamSynchronize", "the line that waits", 40},
	{"train.py", []string{"spawn"}, `{"seen": 2880, "waits": 40, "device": "Simulated GPU"}`, "cudaMemcpyAsync", "the line that waits", 40},
	{"conv.py", nil, `{"shape": [4, 10], "cudnn": true}`, "cudaStreamSynchronize", "the line that waits", 10},
	{"graph.py", nil, `{"shape": []}`, "cudaGraphLaunch", "the line that launches", 50},
	{"jit.py", nil, `{"device": "Simulated GPU"}`, "cuLaunchKernel", "the line that launches", 30},
	{"driver.py", nil, `{"device": "Simulated GPU", "capability": [8, 0], "bus": "0000:10:00.0", "threads": 1024}`,
		"cuLaunchKernel", "the line that launches", 30},
}

// Each call of a real program is counted, each kernel is named, and each call of its main thread,
// except the first ones, has its Python line. The program behaves as it does untraced.
func TestReal(t *testing.T) {
	for _, c := range clients {
		t.Run(c.name+strings.Join(c.args, " "), func(t *testing.T) {
			r := trace(t, c.name, c.args...)
			if got := string(r.output.Result); got != c.result {
				t.Errorf("it says %s, want %s", got, c.result)
			}
			calls, counted := r.checkCalls()
			launches, named := r.checkKernels()
			lines, first := r.checkLines(c.name)
			at := fmt.Sprintf("/srv/%s:%d in ", c.name, line(t, c.name, c.comment))
			got := r.rows(fmt.Sprintf("SELECT count(*) FROM events WHERE op = '%s' AND site LIKE '%s%%'", c.op, at))[0][0].(int64)
			if got != c.n {
				t.Errorf("%d of %s at %s, want %d", got, c.op, at, c.n)
			}
			note(t, fmt.Sprintf("| %s | %d | %d | %d | %d | %d | %d |\n",
				strings.Join(append([]string{c.name}, c.args...), " "), calls, counted, launches, named, lines, first))
		})
	}
}

// clientsHeader is the header of the table of clients. A row says how many calls the libraries and
// ingero counted, how many launches there were and how many have the right kernel's name, and how
// many calls of the main thread have a line of the script or, as the first ones, none.
const clientsHeader = `| client | calls by its libraries | counted | launches by its libraries | named | calls at a line of the script | first calls with no line |
|---|---|---|---|---|---|---|
`

var (
	function = regexp.MustCompile(`^cu(da)?[A-Z]`)
	version  = regexp.MustCompile(`(_v\d+)?(_ptsz|_ptds)?$`)
)

// rowOf returns the operation of a function, "" if it is not traced.
func rowOf(symbol string) string {
	for i := range events.Catalog {
		for _, s := range events.Catalog[i].AllSymbols() {
			if s == symbol {
				return version.ReplaceAllString(symbol, "")
			}
		}
	}
	return ""
}

// checkCalls compares the counts of each operation with the libraries' and the program's own, and
// returns the sums of the libraries' and ingero's.
func (r *run) checkCalls() (calls, counted uint64) {
	r.t.Helper()
	got, want := map[string]uint64{}, map[string]uint64{}
	for symbol, n := range r.counted {
		if op := rowOf(symbol); op != "" {
			want[op] += n
		}
	}
	for _, o := range r.operations() {
		op := version.ReplaceAllString(o.Op, "")
		if _, counted := want[op]; counted { // the libraries count calls that need a context
			got[op] += o.Calls
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 {
		r.t.Errorf("calls (-the libraries' +ingero's):\n%s", diff)
	}
	for op, n := range r.output.Calls {
		if got[op] != n {
			r.t.Errorf("%d of %s, the program says %d", got[op], op, n)
		}
	}
	r.t.Logf("%d operations, %d calls", len(got), sum(got))
	return sum(want), sum(got)
}

// checkKernels compares the launches of each kernel, and checks that each has a name. It returns the
// libraries' launches, and how many of them have the right name.
func (r *run) checkKernels() (launches, named uint64) {
	r.t.Helper()
	got, want := map[string]uint64{}, map[string]uint64{}
	for name, n := range r.counted {
		if !function.MatchString(name) {
			want[name] = n
		}
	}
	for _, o := range r.operations("--by", "function") {
		got[o.Symbol[:min(len(o.Symbol), 495)]] += o.Calls
	}
	if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 {
		r.t.Errorf("kernels (-the libraries' +ingero's):\n%s", diff)
	}
	r.t.Logf("%d kernels, %d launches", len(got), sum(got))
	for name, n := range want {
		named += min(n, got[name])
	}
	return sum(want), named
}

func sum(counts map[string]uint64) (n uint64) {
	for _, c := range counts {
		n += c
	}
	return n
}

// checkLines checks that each call of the main thread before its end has a line of the script. Only
// the first calls may lack it: they come just after a library was loaded, and the kernel may not
// have its tables or the interpreter's yet. It returns the number of calls with a line, and of those
// first ones.
func (r *run) checkLines(script string) (right, first int) {
	r.t.Helper()
	const own = "nested = 0 AND tid = %d AND op NOT LIKE '__cuda%%' AND op NOT IN ('cuLibraryUnload', 'cudaGraphExecDestroy', 'cuCtxDestroy')"
	for _, row := range r.rows("SELECT op, coalesce(site, '') FROM events WHERE " + fmt.Sprintf(own, r.output.PID) + " ORDER BY timestamp") {
		switch site := row[1].(string); {
		case strings.HasPrefix(site, "/srv/"+script+":"):
			right++
		case !strings.Contains(site, ".py:") && right == 0:
			first++
		default:
			r.t.Errorf("%s at %q, not at a line of %s", row[0], site, script)
		}
	}
	if right == 0 {
		r.t.Error("no call of the main thread has a line")
	}
	r.t.Logf("%d calls of the main thread at lines of %s, after %d with no line", right, script, first)
	return right, first
}

// note appends a row to the table of clients, and the header to an empty one.
func note(t *testing.T, row string) {
	t.Helper()
	if *tableFile == "" {
		return
	}
	f, err := os.OpenFile(*tableFile, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() == 0 {
		row = clientsHeader + row
	}
	if _, err := f.WriteString(row); err != nil {
		t.Fatal(err)
	}
}
