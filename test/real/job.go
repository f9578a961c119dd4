package real

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ingero/internal/testkit"
)

// FileName returns the name of a victim's files.
func FileName(victim string) string {
	return strings.NewReplacer(": ", "-", ", ", "-", " ", "-").Replace(victim)
}

// Truth is a victim's own report at its end, by its own clock.
type Truth struct {
	PID      uint32   `json:"pid"`
	Steps    int      `json:"steps"`
	SpreadNS int64    `json:"spread_ns"` // variation of usual steps
	Touched  int      `json:"touched"`   // steps during the fault
	LostNS   int64    `json:"lost_ns"`   // how much longer those steps took than usual ones
	RanNS    int64    `json:"ran_ns"`    // upper bound of the part of LostNS that is CPU time of a reading fault, by the kernel's account
	Culprits []uint32 `json:"culprits"`  // processes; none: no culprit
	From, To time.Time
}

// Lost returns the bounds of the lost time.
func (x *Truth) Lost() (least, most time.Duration) {
	unsure := int64(x.Touched)*x.SpreadNS/4 + max(x.LostNS, 0)/20 + int64(10*time.Millisecond)
	return time.Duration(max(x.LostNS-unsure, 0)), time.Duration(max(x.LostNS+unsure, 0))
}

// Job is a running victim.
type Job struct {
	*Victim
	PID      uint32 // its main process
	t        testing.TB
	child    *testkit.Child
	beside   []uint32 // the processes of the other program
	clock    []byte   // shared memory: see clock.py
	from, to time.Time
}

// DataBytes is the size of the file that victims read.
const DataBytes = 64 << 20

// Start starts a victim and waits until its steps are warm. It runs as an argument of the command
// before, which may be empty.
func Start(t testing.TB, v *Victim, scripts, dir string, before ...string) *Job {
	t.Helper()
	in, work := Root(t), filepath.Join(dir, "work")
	if err := os.CopyFS(work, os.DirFS(scripts)); err != nil {
		t.Fatal(err)
	}
	data := make([]byte, DataBytes)
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(data) // never fails
	j := &Job{Victim: v, t: t, clock: newClock(t, filepath.Join(work, "clock"))}
	if err := os.WriteFile(filepath.Join(work, "data"), data, 0o644); err != nil {
		t.Fatal(err)
	}
	env := append([]string{"INGERO_SIM_SYNC=block", "INGERO_SIM_KERNEL_NS=1000000"}, v.Env...)
	if v.Beside != "" {
		line := launch(t, Entered(in, work, Python(in, env, v.Beside)...)).Line("here ")
		for pid := range strings.FieldsSeq(strings.TrimPrefix(line, "here ")) {
			j.beside = append(j.beside, number(t, pid))
		}
	}
	j.child = launch(t, Entered(in, work, append(before, Python(in, env, v.Script, v.Args...)...)...))
	j.PID = number(t, j.child.Line("ready "))
	return j
}

func launch(t testing.TB, argv []string) *testkit.Child {
	t.Helper()
	c := testkit.Start(t, exec.Command(argv[0], argv[1:]...))
	// With such short time slices it does not wait for the end of others' when it wakes.
	if err := unix.SchedSetAttr(c.PID(), &unix.SchedAttr{Size: unix.SizeofSchedAttr, Runtime: uint64(time.Millisecond)}, 0); err != nil {
		t.Fatal(err)
	}
	return c
}

// number returns the number at the end of a line.
func number(t testing.TB, line string) (n uint32) {
	t.Helper()
	if _, err := fmt.Sscan(line[strings.LastIndex(line, " ")+1:], &n); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return n
}

// newClock creates the file through which a victim learns the time of its fault.
func newClock(t testing.TB, path string) []byte {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const size = 24
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	return mem
}

// Schedule says when a fault begins, how long it lasts, and how long the victim runs after it.
type Schedule struct{ Lead, Lasts, Tail time.Duration }

// Fault tells the victim the time of its fault, and when to end.
func (j *Job) Fault(s Schedule) {
	j.from = time.Now().Add(s.Lead).UTC()
	j.to = j.from.Add(s.Lasts)
	for i, at := range []time.Time{j.from, j.to, j.to.Add(s.Tail)} {
		binary.LittleEndian.PutUint64(j.clock[8*i:], uint64(at.UnixNano()))
	}
}

// End waits for the victim's end, and returns its report.
func (j *Job) End() *Truth {
	j.t.Helper()
	if err := j.child.Wait(); err != nil {
		j.t.Fatalf("%s: %v\n%s", j.Script, err, j.child.Stderr())
	}
	lines := strings.Split(strings.TrimSpace(j.child.Stdout()), "\n")
	x := &Truth{From: j.from, To: j.to}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), x); err != nil {
		j.t.Fatalf("%s printed %q: %v\n%s", j.Script, j.child.Stdout(), err, j.child.Stderr())
	}
	if j.beside != nil {
		x.Culprits = j.beside
	}
	return x
}

var (
	marked  = regexp.MustCompile(`#.*\bthe fault$`)
	defined = regexp.MustCompile(`^ *def (\w+)\(`)
)

// Marked returns the marked fault lines of a directory's scripts, as reports write them, by
// function.
func Marked(t testing.TB, scripts string) map[string][]string {
	t.Helper()
	lines := map[string][]string{}
	files, err := filepath.Glob(filepath.Join(scripts, "*.py"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts in %s: %v", scripts, err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		in := ""
		for i, l := range strings.Split(string(text), "\n") {
			if m := defined.FindStringSubmatch(l); m != nil {
				in = m[1]
			}
			if marked.MatchString(l) {
				lines[in] = append(lines[in], fmt.Sprintf("%s:%d", filepath.Base(f), i+1))
			}
		}
	}
	return lines
}
