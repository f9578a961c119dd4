//go:build measure

package soak

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ingero/internal/query"
	"ingero/internal/testkit"
	"ingero/sim"
)

// soak is the state of the test.
type soak struct {
	t                      *testing.T
	dir, disk, db, lock    string
	memory                 string         // cgroup that presses the agent; "": none yet
	reader                 *testkit.Child // process in it that uses the memory
	nursery                *testkit.Child
	steps                  *sim.Steps      // steps of the trainer
	alone, traced          []window        // in pauses, and in the lives before them, alternately with and without a limit
	longWindow, besides    window          // at the end of the long life, and after it, with everything except the agent
	longBegan              float64         // s since boot
	longSteps              [4]uint64       // of the trainer: before the long life, once it is seen, and the same at the end
	sizes                  []size          // of the agent in its long life
	lives                  int             // lives that ended by SIGKILL
	tails                  []time.Duration // from their last call to the kill
	starts                 []time.Duration // of the agent, to the first tick with calls
	paced, trainer, python int             // long-lived processes
}

// The phases: no trace; lives that end by SIGKILL, with pauses; one long life. The rest is again
// without a trace.
const (
	partAlone = 0.08
	partKills = 0.44
	partLong  = 0.40
	lives     = 0.7 // share of partKills; the rest are pauses
)

// A trace of hostile processes on a hostile machine is right about each call, slows no process
// down, and does not grow.
func TestSoak(t *testing.T) {
	testkit.NeedBPF(t)
	testkit.NeedTool(t, "gcc", "python3")
	needMemory(t)
	all := duration()
	s := start(t, all)
	part := func(share float64) time.Duration { return time.Duration(share * float64(all)) }

	s.leave(part(partAlone))
	s.storms("killed")
	s.kills(part(partKills))
	s.long(part(partLong))
	s.calm()
	s.leave(part(1 - partAlone - partKills - partLong))

	if *keep != "" {
		if out, err := exec.Command("cp", "-r", s.disk, filepath.Join(s.dir, "out"), *keep).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}
	r, err := query.Open(t.Context(), s.db)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	sessions, err := r.Sessions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(sessions) // the latest is first
	s.reported(sessions)
	s.exact(r, &sessions[len(sessions)-1])
	s.unharmed()
	s.flat()
	s.unslowed()
}

// start starts the nursery with the long-lived processes.
func start(t *testing.T, all time.Duration) *soak {
	t.Helper()
	dir := t.TempDir()
	s := &soak{t: t, dir: dir, disk: filepath.Join(dir, "disk"), lock: filepath.Join(dir, strconv.Itoa(os.Getpid()))}
	s.db = filepath.Join(s.disk, "ingero.db")
	stack, err := sim.Extract(filepath.Join(dir, "sim"))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{s.disk, s.lock, filepath.Join(dir, "out"), filepath.Join(dir, "run")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	testkit.NeedMount(t, syscall.Mount("tmpfs", s.disk, "tmpfs", 0, "size=96m,mode=755"))
	t.Cleanup(func() { _ = syscall.Unmount(s.disk, syscall.MNT_DETACH) })
	if out, err := exec.Command("gcc", "-O1", "-o", filepath.Join(dir, "crowd"), "testdata/crowd.c").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	steps, err := os.MkdirTemp("/dev/shm", "ingero-soak-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(steps) })
	if s.steps, err = sim.NewSteps(filepath.Join(steps, "steps")); err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("testdata/storms.sh")
	if err != nil {
		t.Fatal(err)
	}
	nursery := exec.Command("sh", "-c", string(script)+"\necho ready; while read -r line; do eval \"$line\"; done; wait; echo done")
	nursery.Dir, nursery.Env = dir, append(os.Environ(), "SIM="+stack.Dir, "INGERO_SIM_KERNEL_NS=100000")
	s.nursery = testkit.Start(t, nursery)
	s.nursery.Line("ready")
	s.phase("alone")
	// They end by themselves, long after the test.
	seconds := strconv.Itoa(int(all.Seconds())*3 + 600)
	s.trainer = s.live(s.steps.Env() + ` "$SIM/train" --steps 1000000000 --seconds ` + seconds)
	s.paced = s.live(fmt.Sprintf(`"$SIM/calls" memcpyasync %d --rate %d`, pace*(int(all.Seconds())*3+600), pace))
	s.python = s.live(`python3 "$SIM/train.py" --steps 1000000000 --seconds ` + seconds)
	return s
}

// pace is the paced process's copies per second, each larger than the previous one.
const pace = 200

// live starts a long-lived process, and returns its PID.
func (s *soak) live(command string) (pid int) {
	s.t.Helper()
	s.nursery.Send(command + ` >/dev/null & echo pid $!`)
	if _, err := fmt.Sscanf(s.nursery.Line("pid "), "pid %d", &pid); err != nil {
		s.t.Fatal(err)
	}
	return pid
}

// phase sets the name under which programs that start from now on report.
func (s *soak) phase(name string) {
	s.t.Helper()
	s.nursery.Send("echo " + name + " >phase.new && mv phase.new phase; echo phase " + name)
	s.nursery.Line("phase " + name)
}

// storms starts the short-lived processes.
func (s *soak) storms(phase string) {
	s.t.Helper()
	s.phase(phase)
	for _, loop := range []string{
		"storm forks 0 multi --case fork-storm --count 5 --tell",
		"storm execs 0 multi --case exec-storm --count 5 --tell",
		"storm threads 0 multi --case thread-storm --count 20",
		"storm killed 137 multi --case sigkill",
		`storm late 0 late --lib "$SIM/libcudart.so.12" --delay-ms 1 --cycles 3 --calls 20`,
		"storm bursts 0 calls launch 5000 --zero --threads 2",
		"storm served 0 infer --requests 10 --rate 100",
		"reuse",
	} {
		s.nursery.Send(loop + " &")
	}
	testkit.Eventually(s.t, "each loop to have been round", func() bool { return len(s.rounds()) == loops })
}

// loops is the number of the storms' loops.
const loops = 8

// rounds returns the rounds of each loop; -1: it has ended.
func (s *soak) rounds() map[string]int {
	s.t.Helper()
	files, err := filepath.Glob(filepath.Join(s.dir, "run", "*"))
	if err != nil {
		s.t.Fatal(err)
	}
	out := map[string]int{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil || filepath.Ext(file) == ".new" {
			continue
		}
		n, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			n = -1
		}
		out[filepath.Base(file)] = n
	}
	return out
}

// settle begins another phase, and waits until no program of an earlier phase runs.
func (s *soak) settle(phase string) {
	s.t.Helper()
	s.phase(phase)
	at := s.rounds()
	testkit.Eventually(s.t, "what began before to end", func() bool {
		for loop, n := range s.rounds() {
			if n < at[loop]+2 {
				return false
			}
		}
		return true
	})
}

// calm ends the storms, and waits for their last processes.
func (s *soak) calm() {
	s.t.Helper()
	s.nursery.Send(": >stop-storms")
	testkit.Eventually(s.t, "the end of the storms", func() bool {
		for _, n := range s.rounds() {
			if n >= 0 {
				return false
			}
		}
		return true
	})
}

// pass waits for a time, and calls look at intervals.
func (s *soak) pass(d time.Duration, look func()) {
	s.t.Helper()
	end := time.NewTimer(d)
	defer end.Stop()
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for {
		select {
		case <-end.C:
			return
		case <-every.C:
			if look != nil {
				look()
			}
		}
	}
}

// leave leaves the processes alone for a time.
func (s *soak) leave(d time.Duration) {
	s.t.Helper()
	from := sim.Now()
	s.pass(d, nil)
	s.alone = append(s.alone, s.window(from))
}

// bound reports whether the current life has the default overhead limit: every other life has.
func (s *soak) bound() bool { return s.lives%2 == 0 }

// kills traces and kills ingero repeatedly, once beside ten thousand other processes.
func (s *soak) kills(d time.Duration) {
	s.t.Helper()
	each := min(30*time.Second, d/5)
	for end := time.Now().Add(d - each); s.lives < 2 || time.Now().Before(end); s.lives++ {
		var crowd *testkit.Child
		if s.lives == 1 {
			crowd = testkit.Start(s.t, exec.Command(filepath.Join(s.dir, "crowd"), "10000"))
			crowd.Line("crowded")
		}
		var all []string
		if !s.bound() { // every call has a record, so a missing record is seen
			all = []string{"--sampling-rate", "1", "--max-overhead", "0"}
		}
		a := s.begin(all...)
		began := time.Now()
		half := time.Duration(lives / 2 * float64(each)) // time in which it can find out what to shed
		s.pass(half, func() { a.tick() })
		from := sim.Now()
		s.pass(half, func() { a.tick() })
		s.traced = append(s.traced, s.window(from))
		at := time.Now()
		a.kill()
		if crowd != nil {
			crowd.Signal(syscall.SIGKILL)
			_ = crowd.Wait()
		}
		s.leave(time.Duration((1 - lives) * float64(each)))
		if !s.bound() {
			s.unbroken(began, at)
		}
	}
	slices.Sort(s.tails)
	s.t.Logf("lives that were killed: %d; the last call of those without a bound: %s before that (at most %s)", s.lives, s.tails[len(s.tails)/2].Round(time.Millisecond), s.tails[len(s.tails)-1].Round(time.Millisecond))
}

// long is one life in which the agent is stopped, its disk is full, memory is short, and, on
// request, the clock is set.
func (s *soak) long(d time.Duration) {
	s.t.Helper()
	s.press()
	s.longBegan, s.longSteps[0] = s.uptime(), s.steps.Count()
	// Nothing is shed: the counts must be exact.
	a := s.begin("--max-overhead", "0")
	s.ticks(a, 2)
	s.longSteps[1] = s.steps.Count()
	s.phase("long")
	from := sim.Now()
	for i, end := 0, time.Now().Add(d); time.Now().Before(end); i++ {
		s.pass(d/12, func() { a.tick() })
		s.sizes = append(s.sizes, a.size())
		switch i % 4 {
		case 1:
			a.child.Signal(syscall.SIGSTOP)
			s.pass(3*time.Second, nil)
			a.child.Signal(syscall.SIGCONT)
		case 2: // data of processes that end while the disk is full may be dropped
			s.settle("full")
			s.ticks(a, 3)
			s.fill(a)
			s.phase("long")
		case 3:
			s.step()
		}
	}
	s.longWindow = s.window(from)
	s.settle("after")
	s.ticks(a, 3)
	s.longSteps[2] = s.steps.Count()
	a.end()
	s.longSteps[3] = s.steps.Count()
	s.short()
	from = sim.Now()
	s.pass(min(d/12, 30*time.Second), nil)
	s.besides = s.window(from)
	s.t.Logf("the long life: %s, %d calls, overhead %s, drops %v, problems %v", time.Since(a.began).Round(time.Second), a.state.Calls, a.state.Overhead, a.state.Drops, a.state.Problems)
}

// uptime returns the machine's uptime in seconds.
func (s *soak) uptime() (at float64) {
	s.t.Helper()
	text, err := os.ReadFile("/proc/uptime")
	if _, err2 := fmt.Sscan(string(text), &at); err != nil || err2 != nil {
		s.t.Fatal(err, err2)
	}
	return at
}

// ticks waits for n ticks.
func (s *soak) ticks(a *agent, n int) {
	s.t.Helper()
	for range n {
		testkit.Eventually(s.t, "a tick", a.tick)
	}
}

// fill fills the disk until the agent reports it, and then a while.
func (s *soak) fill(a *agent) {
	s.t.Helper()
	ballast := filepath.Join(s.disk, "ballast")
	f, err := os.Create(ballast)
	if err != nil {
		s.t.Fatal(err)
	}
	var st unix.Statfs_t
	full := func() bool {
		if err := unix.Statfs(s.disk, &st); err == nil && st.Bfree > 0 {
			_, _ = f.Write(make([]byte, int(st.Bfree)*int(st.Bsize)))
		}
		a.tick()
		return len(a.state.Problems) > 0
	}
	testkit.Eventually(s.t, "the agent to say that its disk is full", full)
	s.pass(2*time.Second, nil)
	_ = f.Close()
	if err := os.Remove(ballast); err != nil {
		s.t.Fatal(err)
	}
	testkit.Eventually(s.t, "the agent to record again", func() bool { return a.tick() && len(a.state.Problems) == 0 })
}

// step sets the machine's clock forward and back again.
func (s *soak) step() {
	s.t.Helper()
	if !*clocks {
		return
	}
	for _, by := range []int64{5, -5} {
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_REALTIME, &now); err != nil {
			s.t.Fatal(err)
		}
		now.Sec += by
		if err := unix.ClockSettime(unix.CLOCK_REALTIME, &now); err != nil {
			s.t.Fatal(err)
		}
		s.pass(2*time.Second, nil)
	}
}
