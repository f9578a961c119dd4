//go:build real

package real

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ingero/internal/query"
	"ingero/internal/testkit"
	"ingero/sim"
)

// run is one traced program.
type run struct {
	t       *testing.T
	dir     string
	env     []string          // ingero's environment
	output  program           // its output
	counted map[string]uint64 // calls and kernels, counted by the libraries
	reader  *query.Reader
}

// program is the output of a program.
type program struct {
	PID    int64             `json:"pid"`
	Calls  map[string]uint64 `json:"calls"`
	Result json.RawMessage   `json:"result"`
}

// trace runs a program of testdata under ingero from its first call on, with a stack for each call.
func trace(t *testing.T, script string, args ...string) *run {
	t.Helper()
	in := Root(t)
	r := &run{t: t, dir: t.TempDir()}
	work := filepath.Join(r.dir, "work")
	if err := os.CopyFS(work, os.DirFS(filepath.Join("testdata", "clients"))); err != nil {
		t.Fatal(err)
	}
	counts, err := sim.NewCounts(filepath.Join(work, "counts"))
	if err != nil {
		t.Fatal(err)
	}
	r.env = append(os.Environ(), fmt.Sprintf("%s=%s:%d", asIngero, r.dir, 1<<43+int64(os.Getpid())<<20+time.Now().UnixNano()%(1<<20)))
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ingero := []string{self, "run", "--db", r.db(), "--max-overhead", "0", "--stack=all", "--ringbuf-size", "64m", "--output", filepath.Join(r.dir, "report"), "--"}
	argv := Entered(in, work, append(ingero, Python(in, []string{"INGERO_SIM_COUNTS=/srv/counts"}, script, args...)...)...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = r.env
	child := testkit.Start(t, cmd)
	child.CloseStdin()
	if err := child.Wait(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, child.Stderr())
	}
	if err := json.Unmarshal([]byte(child.Stdout()), &r.output); err != nil {
		t.Fatalf("%s printed %q: %v", script, child.Stdout(), err)
	}
	if r.counted, err = counts.Read(); err != nil {
		t.Fatal(err)
	}
	if r.reader, err = query.Open(t.Context(), r.db()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.reader.Close() })
	return r
}

func (r *run) db() string { return filepath.Join(r.dir, "ingero.db") }

// rows returns the result of a statement.
func (r *run) rows(sql string) [][]any {
	r.t.Helper()
	res, err := r.reader.SQL(r.t.Context(), sql, query.SQLLimits{Rows: 1_000_000})
	if err != nil {
		r.t.Fatalf("%s: %v", sql, err)
	}
	return res.Rows
}

// operation is an operation of ingero query --json.
type operation struct {
	Op, Symbol string
	Calls      uint64
}

// operations returns the exact counts of ingero query.
func (r *run) operations(args ...string) []operation {
	r.t.Helper()
	cmd := exec.Command("/proc/self/exe", append([]string{"query", "--json", "--db", r.db()}, args...)...)
	cmd.Env = r.env
	out, err := cmd.Output()
	if err != nil {
		r.t.Fatalf("ingero query: %v", err)
	}
	var all struct{ Operations []operation }
	if err := json.Unmarshal(out, &all); err != nil {
		r.t.Fatal(err)
	}
	return all.Operations
}

// line returns the number of the script's line that has the comment.
func line(t *testing.T, script, comment string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "clients", script))
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range strings.Split(string(text), "\n") {
		if strings.HasSuffix(l, "# "+comment) {
			return i + 1
		}
	}
	t.Fatalf("%s has no line %q", script, comment)
	return 0
}
