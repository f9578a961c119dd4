//go:build real

package real

import (
	"encoding/json"
	"errors"
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
	table = flag.String("table", "", "file to which the rows of the table are appended")
	keep  = flag.String("keep", "", "directory in which recordings, reports and truths are kept")
	again = flag.String("replay", "", "directory of kept recordings, which are judged by the engine as it is now; nothing runs")
)

const scripts = "testdata/victims"

// when is the schedule of faults, from the time at which the victim is warm and traced.
var when = Schedule{Lead: 5 * time.Second, Lasts: 4 * time.Second, Tail: 4 * time.Second}

// Each victim is traced with the default flags, and the output of ingero explain is compared with
// the victim's own clock. A wrong answer is a row of the table, not a failure.
func TestVictims(t *testing.T) {
	testkit.First(t)
	lines := Marked(t, scripts)
	for i := range Victims {
		v := &Victims[i]
		t.Run(v.Name, func(t *testing.T) {
			x, r := &Truth{}, &Report{}
			if *again != "" {
				replayed(t, v, x, r)
			} else {
				traced(t, v, x, r)
			}
			verdict := Judge(v, x, r, lines[v.Line])
			t.Logf("right: %t; truth: %+v", verdict.Right(), *x)
			t.Logf("root cause: %s", verdict.Root)
			if len(verdict.Busy) > 0 {
				t.Logf("of other programs: %s", strings.Join(verdict.Busy, "; "))
			}
			t.Log("\n" + verdict.Row())
			note(t, Header, verdict.Row())
		})
	}
}

// asSelf returns a command that runs this test as ingero, with its lock in a directory.
func asSelf(t *testing.T, dir string) (self string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(asIngero, fmt.Sprintf("%s:%d", dir, 1<<43+int64(os.Getpid())<<20+time.Now().UnixNano()%(1<<20)))
	return self
}

// traced runs a victim under ingero.
func traced(t *testing.T, v *Victim, x *Truth, r *Report) {
	t.Helper()
	dir := t.TempDir()
	self, db := asSelf(t, dir), filepath.Join(dir, "ingero.db")
	var j *Job
	if v.Attach {
		j = Start(t, v, scripts, dir)
		trace := testkit.Start(t, exec.Command(self, "trace", "--db", db, "--pid", fmt.Sprint(j.PID)))
		trace.Line("Tracing ")
		j.Fault(when)
		*x = *j.End()
		if err := trace.Wait(); err != nil {
			t.Fatalf("ingero trace: %v\n%s", err, trace.Stderr())
		}
	} else {
		j = Start(t, v, scripts, dir, self, "run", "--db", db, "--output", filepath.Join(dir, "report"), "--")
		j.Fault(when)
		*x = *j.End()
	}
	text := output(t, self, "explain", "--json", "--db", db)
	if err := json.Unmarshal(text, r); err != nil {
		t.Fatal(err)
	}
	if *keep != "" {
		kept(t, v, x, dir, text)
	}
}

// replayed judges a kept recording again.
func replayed(t *testing.T, v *Victim, x *Truth, r *Report) {
	t.Helper()
	dir := filepath.Join(*again, FileName(v.Name))
	text, err := os.ReadFile(filepath.Join(dir, "truth.json"))
	if err == nil {
		err = json.Unmarshal(text, x)
	}
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(output(t, asSelf(t, t.TempDir()), "replay", "--json", "--db", filepath.Join(dir, "ingero.db")))) {
		if strings.Contains(line, `"chains":`) {
			*r = Report{}
			if err := json.Unmarshal([]byte(line), r); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func output(t *testing.T, self string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(self, args...)
	var said strings.Builder
	cmd.Stderr = &said
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("ingero %s: %v\n%s", args[0], err, said.String())
	}
	return text
}

// kept keeps the recording, the report and the truth of a run.
func kept(t *testing.T, v *Victim, x *Truth, dir string, report []byte) {
	t.Helper()
	to := filepath.Join(*keep, FileName(v.Name))
	truth, err := json.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(os.RemoveAll(to), os.RemoveAll(filepath.Join(dir, "work")), os.CopyFS(to, os.DirFS(dir)),
		os.WriteFile(filepath.Join(to, "explain.json"), report, 0o644), os.WriteFile(filepath.Join(to, "truth.json"), truth, 0o644))
	if err != nil {
		t.Fatal(err)
	}
}

// note appends a row to the table, and the header to an empty one.
func note(t *testing.T, header, row string) {
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
		row = header + row
	}
	if _, err := f.WriteString(row); err != nil {
		t.Fatal(err)
	}
}
