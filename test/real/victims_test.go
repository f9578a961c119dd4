//go:build real

package real

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ingero/internal/testkit"
)

var (
	table = flag.String("table", "", "file to which the table of verdicts is appended")
	keep  = flag.String("keep", "", "directory in which recordings and reports are kept")
)

const scripts = "testdata/victims"

// when is when faults are, from when the victim is warm and traced on.
var when = Schedule{Lead: 5 * time.Second, Lasts: 4 * time.Second, Tail: 4 * time.Second}

// Each victim is traced with the default flags, and what ingero explain says is compared with the
// victim's own clock. A wrong answer is a row of the table, not a failure.
func TestVictims(t *testing.T) {
	testkit.First(t)
	lines := Marked(t, scripts)
	for i := range Victims {
		v := &Victims[i]
		t.Run(v.Name, func(t *testing.T) {
			x, r := traced(t, v)
			verdict := Judge(v, x, r, lines)
			t.Logf("right: %t; truth: %+v", verdict.Right(), *x)
			t.Logf("root cause: %s", verdict.Root)
			if len(verdict.Busy) > 0 {
				t.Logf("of other programs: %s", strings.Join(verdict.Busy, "; "))
			}
			t.Log("\n" + verdict.Row())
			note(t, verdict.Row())
		})
	}
}

// traced runs a victim under ingero.
func traced(t *testing.T, v *Victim) (*Truth, *Report) {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(asIngero, fmt.Sprintf("%s:%d", dir, 1<<43+int64(os.Getpid())<<20+time.Now().UnixNano()%(1<<20)))
	db := filepath.Join(dir, "ingero.db")
	var x *Truth
	if v.Attach {
		j := Start(t, v, scripts, dir)
		trace := testkit.Start(t, exec.Command(self, "trace", "--db", db, "--pid", fmt.Sprint(j.PID)))
		trace.Line("Tracing ")
		j.Fault(when)
		x = j.End()
		if err := trace.Wait(); err != nil {
			t.Fatalf("ingero trace: %v\n%s", err, trace.Stderr())
		}
	} else {
		j := Start(t, v, scripts, dir, self, "run", "--db", db, "--output", filepath.Join(dir, "report"), "--")
		j.Fault(when)
		x = j.End()
	}
	cmd := exec.Command(self, "explain", "--json", "--db", db)
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("ingero explain: %v", err)
	}
	if *keep != "" {
		kept(t, v, dir, text)
	}
	r := &Report{}
	if err := json.Unmarshal(text, r); err != nil {
		t.Fatal(err)
	}
	return x, r
}

// kept keeps the recording and the report of a run.
func kept(t *testing.T, v *Victim, dir string, report []byte) {
	t.Helper()
	to := filepath.Join(*keep, FileName(v.Name))
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "work")); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(to, "explain.json"), report, 0o644); err != nil {
		t.Fatal(err)
	}
}

// note appends a row to the table.
func note(t *testing.T, row string) {
	t.Helper()
	if *table == "" {
		return
	}
	f, err := os.OpenFile(*table, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() == 0 {
		row = Header + row
	}
	if _, err := f.WriteString(row); err != nil {
		t.Fatal(err)
	}
}
