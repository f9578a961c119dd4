//go:build measure

package store_test

import (
	"flag"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"ingero/internal/testkit"
)

var killRounds = flag.Int("rounds", 5, "writers that are killed")

// By the real clock, a writer that is killed under load loses no call that it got more than 250 ms
// before, apart from the time of a stalled write. The rest is readable, and the next writer
// continues.
func TestKilledUnderLoadInTime(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var worst, stood time.Duration
	torn, slow := 0, 0
	for round := range *killRounds {
		dir := t.TempDir()
		path := filepath.Join(dir, "x.db")
		given, killed := killWriter(t, exe, path, time.Duration(50+rand.IntN(950))*time.Millisecond)
		kept, cut := checkKilled(t, path)
		// Since its last report the writer was in a call that had not returned, or had no CPU: on a
		// machine whose disk or CPUs are busy, this is the time that writing takes.
		last := given[len(given)-1].at
		stood = max(stood, killed-last)
		if killed-last > 50*time.Millisecond {
			slow++
		}
		for _, g := range given {
			if g.calls <= kept {
				continue
			}
			if age := last - g.at; age > lateFrom {
				t.Fatalf("round %d: %d calls are kept, but %d were given %v before the writer's last word, %v before the kill", round, kept, g.calls, age, killed-g.at)
			}
			worst = max(worst, last-g.at)
			break
		}
		if cut > 0 {
			torn++
		}
		nextWriter(t, path, cut > 0)
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Measured(t, "oldest-lost-call", worst.Seconds()*1e3, "ms", testkit.Lower)
	testkit.Measured(t, "longest-silence", stood.Seconds()*1e3, "ms", testkit.Lower)
	t.Logf("%d writers killed: the oldest call that is missing was given %v before the last word; %d were silent for more than 50 ms when killed, at most %v; %d logs end in a torn frame",
		*killRounds, worst, slow, stood, torn)
}

// killWriter starts a writer and kills it after a time. It returns the writer's reports, and the
// time of the kill.
func killWriter(t *testing.T, exe, path string, after time.Duration) (given []giving, killed time.Duration) {
	t.Helper()
	said, err := os.Create(path + ".given")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = said.Close() }()
	cmd := exec.Command(exe)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), loadEnv+"="+path), said, os.Stderr
	if err := testkit.Launch(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // normally it has exited
	testkit.Eventually(t, "the writer is given calls", func() bool { s, err := said.Stat(); return err == nil && s.Size() > 0 })
	time.Sleep(after)
	killed = monotonic()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the error is the kill
	b, err := os.ReadFile(said.Name())
	if err != nil {
		t.Fatal(err)
	}
	return parseGivings(t, string(b)), killed
}
