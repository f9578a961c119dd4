package sim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// The file of INGERO_SIM_STEPS: struct steps of src/cuda/steps.c.
const (
	stepsHead = 16
	stepBytes = 16
	maxSteps  = 65536
)

// Steps are the steps of simulated programs by the driver's own clock, independent of any tracer.
// It is not safe for concurrent use.
type Steps struct {
	path string
	mem  []byte
}

// Step is one step: from a thread's first call after a wait for a stream to the end of its next
// such wait, in CLOCK_MONOTONIC time.
type Step struct{ Begin, End time.Duration }

// NewSteps creates the file at path, preferably not on a disk, and maps it. Programs with
// [Steps.Env] record their steps there.
func NewSteps(path string) (*Steps, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	const size = stepsHead + maxSteps*stepBytes
	if err := f.Truncate(size); err != nil {
		return nil, err
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	return &Steps{path, mem}, nil
}

// Env is the environment variable that makes a program record its steps.
func (s *Steps) Env() string { return "INGERO_SIM_STEPS=" + s.path }

// Count returns the number of steps of all programs and threads so far. The latest 65,536 are kept.
func (s *Steps) Count() uint64 { return binary.NativeEndian.Uint64(s.mem) }

// Between appends the kept steps that began at from or later and ended before to, unordered.
func (s *Steps) Between(out []Step, from, to time.Duration) []Step {
	for at := stepsHead; at < len(s.mem); at += stepBytes {
		x := Step{time.Duration(binary.NativeEndian.Uint64(s.mem[at:])), time.Duration(binary.NativeEndian.Uint64(s.mem[at+8:]))}
		if x.Begin >= from && x.End < to && x.End > x.Begin {
			out = append(out, x)
		}
	}
	return out
}

// Now returns the current CLOCK_MONOTONIC time.
func Now() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // exists on every Linux
	return time.Duration(ts.Nano())
}

// Close unmaps and removes the file.
func (s *Steps) Close() error { return errors.Join(unix.Munmap(s.mem), os.Remove(s.path)) }
