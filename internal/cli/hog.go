package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// hogName is what the program is called that demo incident starts.
const hogName = "hog"

// hogCommand keeps a CPU busy for a while. It is for demo incident.
func hogCommand(*Env) *cobra.Command {
	length := 4 * time.Second
	c := &cobra.Command{Use: hogName, Short: "Keep a CPU busy for a while", Hidden: true, Args: noArguments}
	c.Flags().DurationVar(&length, "for", length, "for how long")
	c.RunE = func(c *cobra.Command, _ []string) error {
		runtime.LockOSThread()
		for end := time.Now().Add(length); time.Now().Before(end) && c.Context().Err() == nil; {
		}
		return nil
	}
	return c
}

// lastCPU returns the last CPU that this process may use.
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
		return 0, errors.New("find a CPU: this process may use none")
	}
	return last, nil
}

// disturb lets the hog run in the second third of the demonstration, on the loop's
// CPU. What it returns is closed once the hog has ended.
func (d *demo) disturb(ctx context.Context, dir string, v *view) <-chan error {
	ended := make(chan error, 1)
	if !d.hog {
		close(ended)
		return ended
	}
	go func() {
		defer close(ended)
		select {
		case <-ctx.Done():
			return
		case <-time.After(d.duration / 3):
		}
		cmd, err := startHog(dir, d.cpu, d.duration/3)
		if err != nil {
			ended <- fmt.Errorf("start the hog: %w", err)
			return
		}
		d.own.add(uint32(cmd.Process.Pid))
		if d.table {
			v.say(fmt.Sprintf("%s  A hog starts on CPU %d, where the loop runs: process %d", time.Now().Format("15:04:05"), d.cpu, cmd.Process.Pid))
		}
		done := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
		defer done()
		_ = cmd.Wait() // it is killed where the demonstration ends first
	}()
	return ended
}

// startHog starts this program under the name of the hog, on one CPU only.
func startHog(dir string, cpu int, length time.Duration) (*exec.Cmd, error) {
	path := filepath.Join(dir, hogName) // the kernel names a process by its path
	if err := os.Symlink(fmt.Sprintf("/proc/%d/exe", os.Getpid()), path); err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{Path: path, Args: []string{hogName, hogName, "--for", length.String()}, Dir: dir, Env: []string{"GOMAXPROCS=1"}}
	// A program starts on the CPUs of the thread that starts it.
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
