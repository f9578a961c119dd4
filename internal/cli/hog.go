package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// hogName is the process name of the CPU hog in demo.
const hogName = "hog"

// hogCommand returns the hidden command that keeps CPUs busy, for demo.
func hogCommand(*Env) *cobra.Command {
	length, work, rest, threads := 4*time.Second, time.Duration(0), time.Duration(0), 1
	c := &cobra.Command{Use: hogName, Short: "Keep a CPU busy for a while", Hidden: true, Args: noArguments}
	c.Flags().DurationVar(&length, "for", length, "total duration")
	c.Flags().DurationVar(&work, "work", 0, "duration of each burst; 0: run continuously")
	c.Flags().DurationVar(&rest, "rest", 0, "pause after each burst")
	c.Flags().IntVar(&threads, "threads", threads, "number of threads")
	c.RunE = func(c *cobra.Command, _ []string) error {
		runtime.GOMAXPROCS(threads)
		ctx, stop := context.WithTimeout(c.Context(), length)
		defer stop()
		var all sync.WaitGroup
		for range threads {
			all.Go(func() {
				runtime.LockOSThread()
				for ctx.Err() == nil {
					for began := time.Now(); (work == 0 || time.Since(began) < work) && ctx.Err() == nil; {
					}
					_ = wait(ctx, rest)
				}
			})
		}
		all.Wait()
		return nil
	}
	return c
}

// lastCPU returns the highest-numbered CPU that this process may use.
func lastCPU() (int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return 0, fmt.Errorf("find a CPU: %w", err)
	}
	last := -1
	for cpu, left := 0, set.Count(); left > 0; cpu++ {
		if set.IsSet(cpu) {
			last, left = cpu, left-1
		}
	}
	if last < 0 {
		return 0, errors.New("find a CPU: this process may not use any")
	}
	return last, nil
}

// startHog starts this program as the hog, on one CPU.
func startHog(dir string, cpu int, length time.Duration, h hog) (*exec.Cmd, error) {
	path := filepath.Join(dir, hogName) // the kernel takes a process's name from its path
	if err := os.Symlink(fmt.Sprintf("/proc/%d/exe", os.Getpid()), path); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	cmd := &exec.Cmd{Path: path, Args: []string{hogName, hogName, "--for", length.String(), "--work", h.work.String(), "--rest", h.rest.String(), "--threads", strconv.Itoa(max(h.threads, 1))},
		Dir: dir, Env: []string{"GOMAXPROCS=1"}}
	// A process inherits the CPU affinity of the thread that starts it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, only unix.CPUSet
	only.Set(cpu)
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return nil, err
	}
	if err := unix.SchedSetaffinity(0, &only); err != nil {
		return nil, err
	}
	err := cmd.Start()
	return cmd, errors.Join(err, unix.SchedSetaffinity(0, &before))
}
