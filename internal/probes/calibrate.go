package probes

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ingero/internal/bpf"
	"ingero/internal/elffile"
	"ingero/internal/proc"
	"ingero/sim"
)

// Cost is the cost of a probe at one kind of place, in nanoseconds.
type Cost struct {
	Inside int // part between the two clock readings
	Around int // rest of the cost of entry and return
	Entry  int // cost of a call that is counted only
}

// Calibration has the measured properties of this kernel's probes.
type Calibration struct {
	Costs map[Place]Cost
	// SeccompHarm reports whether a return probe kills a process with a seccomp filter (Linux 6.11
	// to early 6.13), or may kill it, if that could not be tried.
	SeccompHarm bool
	// Again is the cost of each further link that sees a call, in ns: see [Tracer.Duplicates].
	Again int
	// Unlink is the time to detach one link.
	Unlink time.Duration
}

// calibrated has functions of sim's program calib: the place of their probe, their row, and the
// number of calls in a batch of about a millisecond.
var calibrated = [...]struct {
	at           Place
	row          int
	name, symbol string
	calls        int
}{
	{PlaceEmulated, ownSlots - 1, "push", "ingero_calib_push", 600},
	{PlaceStepped, ownSlots - 2, "stepped", "ingero_calib_stepped", 100},
}

// firstCalibrationRow is the first row that no catalog can use.
const firstCalibrationRow = ownSlots - len(calibrated)

// Calibrate measures the cost of probes on functions that do nothing, and makes the programs
// subtract it from all later durations. It runs a small program for some 50 ms, and drains the
// ring: nothing may be traced yet. It leaves no drops of its own links. Without calibration,
// durations include the probes, and only SeccompHarm is valid.
func (t *Tracer) Calibrate(ctx context.Context) (c Calibration, err error) {
	c.Costs = map[Place]Cost{}
	defer func() {
		if err != nil {
			c.SeccompHarm = mayHarm(runtime.GOARCH, proc.KernelRelease())
		}
	}()
	prog, err := openCalib()
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, prog.Close()) }()
	var bare, inside, both, entry [len(calibrated)]int
	for i := range calibrated {
		if _, bare[i], err = t.runCalib(ctx, prog, i, 0); err != nil {
			return c, err
		}
	}
	links, err := t.linkCalib(prog, 0)
	defer func() {
		began := time.Now()
		for _, l := range links {
			err = errors.Join(err, l.Close())
		}
		c.Unlink = time.Since(began) / time.Duration(max(1, len(links)))
	}()
	if err != nil {
		return c, err
	}
	for i, f := range calibrated {
		if inside[i], both[i], err = t.runCalib(ctx, prog, i, 0); err != nil {
			return c, err
		}
		if _, entry[i], err = t.runCalib(ctx, prog, i, bpf.IngeroRecipeFlagsRECIPE_ENTRY_ONLY); err != nil {
			return c, err
		}
		c.Costs[f.at] = Cost{Inside: inside[i], Around: max(0, both[i]-bare[i]-inside[i]), Entry: max(0, entry[i]-bare[i])}
	}
	if c.Again, err = t.measureAgain(ctx, prog, entry[0]); err != nil {
		return c, err
	}
	if c.SeccompHarm, err = t.seccompHarm(ctx, prog); err != nil {
		return c, err
	}
	// Only now: closed links may still run for a moment, those of returns without those of entries, too (see
	// closeLinks).
	for _, reason := range []bpf.IngeroDropReason{bpf.IngeroDropReasonDROP_DUPLICATE_LINK, bpf.IngeroDropReasonDROP_ORPHAN_RETURN} {
		if err := t.objects.Drops.Put(uint32(reason), uint64(0)); err != nil {
			return c, fmt.Errorf("clear drops: %w", err)
		}
	}
	for at, cost := range c.Costs {
		if err := t.setCost(at, cost); err != nil {
			return c, err
		}
	}
	return c, nil
}

// openCalib returns an unnamed file with the calibration program.
func openCalib() (*os.File, error) {
	code, err := sim.File("calib")
	if err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("ingero-calib", unix.MFD_CLOEXEC|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3 all are executable
		fd, err = unix.MemfdCreate("ingero-calib", unix.MFD_CLOEXEC)
	}
	if err != nil {
		return nil, fmt.Errorf("make the calibration program: %w", err)
	}
	f := os.NewFile(uintptr(fd), "ingero-calib")
	if _, err := f.Write(code); err != nil {
		return nil, errors.Join(fmt.Errorf("write the calibration program: %w", err), f.Close())
	}
	return f, nil
}

// measureAgain returns the cost of each further link that sees the same calls. once is the time of a
// counted call with one link.
func (t *Tracer) measureAgain(ctx context.Context, prog *os.File, once int) (again int, err error) {
	more := 4 // links, since one costs little more than the noise
	if t.mode == ModePerf {
		more = 1 // they take long to detach
	}
	var links []io.Closer
	defer func() { err = errors.Join(err, closeLinks(links)) }()
	for number := range more {
		l, err := t.linkCalib(prog, uint8(number+1))
		links = append(links, l...)
		if err != nil {
			return 0, err
		}
	}
	_, all, err := t.runCalib(ctx, prog, 0, bpf.IngeroRecipeFlagsRECIPE_ENTRY_ONLY)
	if err != nil {
		return 0, err
	}
	return max(0, all-once) / more, nil
}

// linkCalib attaches to all functions of the calibration program, as a copy with this number.
func (t *Tracer) linkCalib(prog *os.File, number uint8) ([]io.Closer, error) {
	f, err := elffile.Open(prog)
	if err != nil {
		return nil, fmt.Errorf("read the calibration program: %w", err)
	}
	functions, err := f.Functions(elffile.Symtab)
	if err != nil {
		return nil, fmt.Errorf("read the calibration program: %w", err)
	}
	var sites []site
	for _, c := range calibrated {
		i := slices.IndexFunc(functions, func(s elffile.Function) bool { return s.Name == c.symbol })
		if i < 0 {
			return nil, fmt.Errorf("the calibration program has no %s", c.symbol)
		}
		s, err := newSite(f.Loads, prog, functions[i], false)
		if err != nil {
			return nil, err
		}
		s.row, s.place = c.row, c.at
		sites = append(sites, s)
	}
	o := Object{Path: fmt.Sprintf("/proc/self/fd/%d", prog.Fd()), Name: prog.Name()}
	return t.link(o, sites, number, 0)
}

// runCalib calls function i, whose recipe has the flags. It returns the lower quartile of the
// recorded durations, zero without records, and the time per call by the program's own clock, both
// in nanoseconds.
func (t *Tracer) runCalib(ctx context.Context, prog *os.File, i int, flags bpf.IngeroRecipeFlags) (inside, whole int, err error) {
	f := calibrated[i]
	if err := t.objects.Recipes.Put(uint32(f.row), bpf.IngeroRecipe{Flags: uint8(flags)}); err != nil {
		return 0, 0, fmt.Errorf("write recipe: %w", err)
	}
	out, err := t.startCalib(ctx, prog, f.name, strconv.Itoa(f.calls), "--batches", "5")
	if err != nil {
		return 0, 0, fmt.Errorf("calibrate: %w", err)
	}
	var durations []int
	t.Drain(1<<30, func(b []byte) {
		var r bpf.IngeroCallRecord
		whole := make([]byte, binary.Size(r)) // a record may be shorter
		copy(whole, b)
		if _, err := binary.Decode(whole, binary.NativeEndian, &r); err == nil && r.Kind == uint8(bpf.IngeroRecordKindRECORD_CALL) {
			durations = append(durations, int(r.DurationNs))
		}
	})
	if len(durations) > 0 {
		slices.Sort(durations)
		inside = durations[len(durations)/4] // interrupts and preemptions only add
	}
	whole, err = perCall(out)
	return inside, whole, err
}

// perCall returns the time per call in the fastest batch, in nanoseconds, from the program's last
// line. On a busy machine other threads preempt the program in most batches, and only add to their
// times.
func perCall(out []byte) (int, error) {
	var result struct {
		Best float64 `json:"best_ps"`
	}
	if err := json.Unmarshal(out, &result); err != nil {
		return 0, fmt.Errorf("calibrate: %w in %q", err, out)
	}
	return int(result.Best / 1000), nil
}

// startCalib runs the program as a target and returns its last line of output.
func (t *Tracer) startCalib(ctx context.Context, prog *os.File, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "/proc/self/fd/3", args...)
	cmd.ExtraFiles = []*os.File{prog}
	cmd.Env = []string{}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	pid := uint32(cmd.Process.Pid)
	err = t.target(pid, Target{})
	_, werr := in.Write([]byte{'\n'}) // it waits for this line
	err = errors.Join(err, werr, cmd.Wait(), t.Forget(pid))
	lines := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte{'\n'})
	return lines[len(lines)-1], err
}

// seccompHarm makes a function return through a probe under a filter that kills on unknown system
// calls.
func (t *Tracer) seccompHarm(ctx context.Context, prog *os.File) (bool, error) {
	f := calibrated[0]
	if err := t.objects.Recipes.Put(uint32(f.row), bpf.IngeroRecipe{}); err != nil {
		return false, fmt.Errorf("write recipe: %w", err)
	}
	_, err := t.startCalib(ctx, prog, f.name, "1", "--seccomp")
	t.Drain(1<<30, func([]byte) {})
	var ended *exec.ExitError
	if !errors.As(err, &ended) {
		return false, err
	}
	if ws, ok := ended.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return true, nil
	}
	if ended.ExitCode() == noFilter {
		return false, nil
	}
	return false, err
}

// mayHarm reports whether a return probe may kill a process with a seccomp filter: on x86 it makes a
// system call since Linux 6.11, which filters forbid unless the kernel exempts it.
func mayHarm(arch, release string) bool {
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		return arch == "amd64"
	}
	return arch == "amd64" && (major > 6 || major == 6 && minor >= 11)
}

// noFilter is calib's exit code on a kernel without seccomp filters.
const noFilter = 3
