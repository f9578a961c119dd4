//go:build measure

package incidents

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"ingero/internal/testkit"
	"ingero/test/scores"
	"ingero/test/tapes"
)

var (
	seeds     = flag.String("seeds", "1", "seeds of the scenarios, as in 1-9")
	only      = flag.String("only", "", "of the scenarios only those whose name has one of these words (comma between)")
	keep      = flag.String("keep", "", "directory to keep recordings and truths in")
	resume    = flag.Bool("resume", false, "do not run what is kept already, if nothing disturbed it")
	replay    = flag.String("replay", "", "judge what was kept in this directory anew")
	attempts  = flag.Int("attempts", 3, "how often a run is made that others' work on the machine, or another run, disturbs: from the second on alone")
	disturbed = flag.Bool("disturbed", false, "with -tapes: also write those of faults that other work on the machine disturbed, if they are right")
	scoreFile = flag.String("scores", "", "file of scores to add those of the runs to; with -resume, runs that it has are not made")
	tableOut  = flag.String("table", "", "file to write the table to")
)

// wanted reports whether -only selects a scenario.
func wanted(name string) bool {
	for word := range strings.SplitSeq(*only, ",") {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

// seedList returns the numbers of -seeds.
func seedList(t *testing.T) (list []uint64) {
	t.Helper()
	a, b, many := strings.Cut(*seeds, "-")
	if !many {
		b = a
	}
	from, err := strconv.ParseUint(a, 10, 32)
	to, err2 := strconv.ParseUint(b, 10, 32)
	if err != nil || err2 != nil {
		t.Fatalf("-seeds %q is no number, nor two with a dash", *seeds)
	}
	for n := from; n <= to; n++ {
		list = append(list, n)
	}
	return list
}

// results collects the scores of all runs.
type results struct {
	sync.Mutex
	all  []*score
	file string // to add them to; "": none
}

// add adds the score of a run in place of an earlier one, unless only the earlier one is undisturbed.
func (r *results) add(t *testing.T, v *verdict, seed uint64, by scores.Judged) {
	t.Helper()
	x := scoreOf(v, seed, by)
	r.Lock()
	defer r.Unlock()
	counts := func(old *score) bool { return old.Compare(x) == 0 && old.undisturbed() }
	if !x.undisturbed() && slices.ContainsFunc(r.all, counts) {
		return
	}
	r.all = scores.Put(r.all, x)
	if r.file != "" && x.undisturbed() {
		scores.Add(t, r.file, x)
	}
}

// has reports whether the score of a run is known.
func (r *results) has(name string, seed uint64) bool {
	r.Lock()
	defer r.Unlock()
	return scores.Has(r.all, &score{Name: name, Seed: seed})
}

// Each fault is named as the cause, with its culprit and the lost time, and nothing else is named.
// Healthy workloads and decoys have no chain. Scenarios known to fail are listed.
func TestIncidents(t *testing.T) { incidents(t, 0) }

// The same holds with the default limit on overhead.
func TestIncidentsByDefault(t *testing.T) { incidents(t, byDefault(t)) }

// incidents runs the scenarios, or judges kept runs again.
func incidents(t *testing.T, overhead float64) {
	sum := results{all: scores.Read[*score](t, *scoreFile), file: *scoreFile}
	t.Cleanup(func() {
		text := table(sum.all)
		if !t.Failed() { // otherwise the table would hide the failure
			t.Log("\n" + text)
		}
		measured(t, sum.all)
		if *only == "" && *replay == "" {
			gate(t, sum.all)
		}
		if *tableOut != "" {
			if err := os.WriteFile(*tableOut, []byte(text), 0o644); err != nil {
				t.Error(err)
			}
		}
	})
	if *replay != "" {
		again(t, &sum)
		return
	}
	l := newLab(t, overhead)
	for _, n := range seedList(t) {
		for _, f := range families {
			for _, r := range f.rows {
				name := f.name + "/" + r.name
				if !wanted(name) {
					continue
				}
				t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) {
					if *resume && sum.has(name, n) {
						return
					}
					if v := keptVerdict(t, name, n); v != nil {
						sum.add(t, v, n, scores.Judged{Date: v.Began.Format(time.DateOnly)}) // by the version that ran it
						return
					}
					at := r.needs(newSeed(n, name), f.full)
					if *tapeDir != "" || *tableOut != "" && len(r.plan(newSeed(n, name)).want) == 0 {
						at = alone
					}
					l.expect(at)
					t.Parallel()
					all := l.judged(t, name, n, r, at)
					sum.add(t, counted(all), n, scores.Now())
					check(t, all[len(all)-1])
				})
			}
		}
	}
}

// judged runs a scenario, and judges it. It repeats the run if other work disturbed it. Unless a
// table is made, it also repeats it if a fault is judged wrong: one run of one fault is a
// measurement. A chain in a healthy run stands, unless another run was concurrent, or the
// hypervisor stole CPU time for as long.
func (l *lab) judged(t *testing.T, name string, n uint64, r row, at need) (all []*verdict) {
	t.Helper()
	_, isKnown := known[name]
	for i := range *attempts {
		var v *verdict
		if i > 0 {
			at = alone
			l.expect(at)
		}
		t.Run(fmt.Sprintf("attempt %d", i+1), func(t *testing.T) {
			place := l.take(t, at)
			if i > 0 {
				testkit.Settle(t)
			}
			db := recordingOf(t, name, n)
			o := l.perform(t, name, n, r.plan(newSeed(n, name)), db, place)
			o.Diagnosis = tapes.Diagnose(t, db)
			v = tapes.Judge(o)
			if len(v.Want) == 0 && len(v.False) > 0 && !v.Alone {
				v.Disturbed = append(v.Disturbed, "a run beside it")
			}
			v.Replay = tapes.Compare(v.Heard, tapes.Play(t, db, v.Until).Heard())
			save(t, v.Outcome)
			saveTape(t, v, db)
		})
		if v == nil {
			t.FailNow()
		}
		all = append(all, v)
		if v.Undisturbed() && (*tapeDir == "" || fit(v)) && (v.Sound() || len(v.Want) == 0 || isKnown || *tableOut != "") {
			break
		}
	}
	return all
}

// counted returns the run that counts in the table: the first undisturbed one.
func counted(all []*verdict) *verdict {
	for _, v := range all {
		if v.Undisturbed() {
			return v
		}
	}
	return all[len(all)-1]
}

// check fails the test if the verdict is wrong for no known reason.
func check(t *testing.T, v *verdict) {
	t.Helper()
	t.Log(v.Line())
	if os.Getenv("VERBOSE") != "" || !v.Right() || len(v.Misled) > 0 {
		tell(t, v)
	}
	why, isKnown := known[v.Name]
	switch {
	case len(v.Disturbed) > 0:
		t.Log("other work on the machine disturbed it: not counted")
	case v.Hampered && len(v.Missed)+len(v.Wrong) == 0:
		t.Log("each time the hypervisor kept CPUs from the machine for as long: not counted")
	case isKnown:
		t.Logf("known: %s", why)
	case !v.Sound():
		t.Error("not right")
	case v.Steps < 10:
		t.Error("there were no steps to judge")
	}
}

// tell logs the chains of the last tick.
func tell(t *testing.T, v *verdict) {
	t.Helper()
	if len(v.Heard) == 0 {
		return
	}
	if len(v.Misled) > 0 && v.Diagnosis != nil {
		t.Log(v.Diagnosis.Text)
	}
	for _, c := range v.Heard[len(v.Heard)-1].Chains {
		t.Logf("%s %s: lost %v (%v to %v), %d of %d steps, confidence %.2f", c.Severity, c.Rule, c.Lost, c.LostMin, c.LostMax, c.Slow, c.Steps, c.Confidence)
		for _, x := range c.Culprits {
			t.Logf("  %s (%d, of %d) %s: %v", x.Thread.Name, x.Thread.PID, x.Thread.Parent, x.What, x.Lost)
		}
	}
}

// fileName returns the base name of a run's files, without extension.
func fileName(dir, name string, n uint64) string {
	return filepath.Join(dir, strings.NewReplacer("/", "-", " ", "-", ",", "").Replace(name)+"-"+strconv.FormatUint(n, 10))
}

// recordingOf returns the path of a run's recording.
func recordingOf(t *testing.T, name string, n uint64) string {
	t.Helper()
	if *keep == "" {
		return filepath.Join(t.TempDir(), "run.db")
	}
	path := fileName(*keep, name, n) + ".db"
	for _, old := range []string{path, path + ".d", path + "-wal", path + "-shm"} {
		if err := os.RemoveAll(old); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(*keep, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// save writes the truth and the chains beside the recording.
func save(t *testing.T, o *outcome) {
	t.Helper()
	if *keep == "" {
		return
	}
	text, err := json.Marshal(o)
	if err == nil {
		err = os.WriteFile(fileName(*keep, o.Name, o.Seed)+".json", text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
