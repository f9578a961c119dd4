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
	"ingero/test/scores"
)

var (
	tableFile = flag.String("table", "", "file for the table")
	runs      = flag.Int("runs", 1, "number of runs of each victim")
	scoreFile = flag.String("scores", "", "file to which the scores of the runs are added; the table has all of its scores")
	resume    = flag.Bool("resume", false, "skip runs that the file of scores has")
	keep      = flag.String("keep", "", "directory in which recordings, reports and truths are kept")
	again     = flag.String("replay", "", "directory of kept recordings, which are judged by the engine as it is now; nothing runs")
)

const scripts = "testdata/victims"

// when is the schedule of faults, from the time at which the victim is warm and traced.
var when = Schedule{Lead: 5 * time.Second, Lasts: 4 * time.Second, Tail: 4 * time.Second}

// Each victim is traced with the default flags, and the output of ingero explain is compared with
// the victim's own clock. A wrong answer is a row of the table, not a failure.
func TestVictims(t *testing.T) {
	testkit.First(t)
	lines := Marked(t, scripts)
	all := scores.Read[*score](t, *scoreFile)
	defer func() { // also if a run failed
		if *tableFile == "" {
			return
		}
		if err := os.WriteFile(*tableFile, []byte(table(all)), 0o644); err != nil {
			t.Error(err)
		}
	}()
	for n := 1; n <= *runs; n++ {
		for i := range Victims {
			v := &Victims[i]
			t.Run(fmt.Sprintf("%s/%d", v.Name, n), func(t *testing.T) {
				if *resume && scores.Has(all, &score{Name: v.Name, Run: n}) {
					return
				}
				x := scoreOf(judged(t, v, n, lines[v.Line]), n)
				all = scores.Put(all, x)
				if *scoreFile != "" {
					scores.Add(t, *scoreFile, x)
				}
			})
		}
	}
}

// judged runs a victim, or replays its recording, and judges the report.
func judged(t *testing.T, v *Victim, n int, marked []string) *Verdict {
	t.Helper()
	x, r := &Truth{}, &Report{}
	if *again != "" {
		replayed(t, keptAt(*again, v, n), x, r)
	} else {
		traced(t, v, n, x, r)
	}
	verdict := Judge(v, x, r, marked)
	t.Logf("right: %t %v; said %v, lines %v; truth: %+v", verdict.Right(), verdict.Respects(), verdict.Said, verdict.Lines, *x)
	t.Logf("root cause: %s", verdict.Root)
	if len(verdict.False) > 0 {
		t.Logf("false causes: %s", strings.Join(verdict.False, "; "))
	}
	if len(verdict.Busy) > 0 {
		t.Logf("of other programs: %s", strings.Join(verdict.Busy, "; "))
	}
	return verdict
}

// keptAt returns the directory of a kept run.
func keptAt(dir string, v *Victim, n int) string {
	return filepath.Join(dir, fmt.Sprintf("%s-%d", FileName(v.Name), n))
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
func traced(t *testing.T, v *Victim, n int, x *Truth, r *Report) {
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
		kept(t, keptAt(*keep, v, n), x, dir, text)
	}
}

// replayed judges a kept recording again.
func replayed(t *testing.T, dir string, x *Truth, r *Report) {
	t.Helper()
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
func kept(t *testing.T, to string, x *Truth, dir string, report []byte) {
	t.Helper()
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
