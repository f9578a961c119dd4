//go:build measure

package soak

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"ingero/internal/cli"
	"ingero/internal/jail"
	"ingero/internal/lock"
	"ingero/internal/screen"
)

var (
	length = flag.Duration("for", 0, "how long (0: 5 minutes where CI runs it, else one)")
	keep   = flag.String("keep", "", "copy the database and what the programs said to this folder")
	clocks = flag.Bool("clock", false, "step the machine's clock, too: everybody's")
)

// asIngero is the environment variable that makes the test binary ingero. It has a directory for
// its lock.
const asIngero = "SOAK_INGERO"

func TestMain(m *testing.M) {
	jail.Enter()
	screen.Enter()
	if dir := os.Getenv(asIngero); dir != "" {
		go countGoroutines(filepath.Join(dir, goroutines))
		os.Exit(cli.Main(cli.Env{Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv,
			Lock: place(dir), Build: cli.Build{Version: "v1.2.3", Commit: "abc", Date: "2026-01-02"}}))
	}
	os.Exit(m.Run())
}

// place returns a lock that no other test or real trace uses.
func place(dir string) lock.Place {
	var mark int64
	_, _ = fmt.Sscan(filepath.Base(dir), &mark)
	return lock.Place{Dirs: []string{dir}, Mark: 1<<42 + mark}
}

// goroutines is the file to which ingero writes its number of goroutines on SIGUSR2.
const goroutines = "goroutines"

func countGoroutines(path string) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR2)
	for range asked {
		if err := os.WriteFile(path+".new", fmt.Append(nil, runtime.NumGoroutine()), 0o600); err == nil {
			_ = os.Rename(path+".new", path)
		}
	}
}

// duration returns the length of the soak, without starts and ends.
func duration() time.Duration {
	switch {
	case *length > 0:
		return *length
	case os.Getenv("CI") != "":
		return 5 * time.Minute
	}
	return time.Minute
}
