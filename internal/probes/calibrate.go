package probes

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ingero/internal/bpf"
	"ingero/sim"
)

// Cost is what a probe at one kind of place costs, in nanoseconds.
type Cost struct {
	Inside int // of it, what falls between the two clock readings
	Around int // of entry and return, what does not
	Entry  int // a call that is counted only
}

// Calibration is what was found out about this kernel's probes.
type Calibration struct {
	Costs map[Place]Cost
	// SeccompHarm says that a return probe kills a process with a seccomp filter
	// (Linux 6.11 to early 6.13).
	SeccompHarm bool
	// Unlink is how long it takes to take one link out.
	Unlink time.Duration
}

// calibrated are functions of sim's program calib: the place that their probe
// gets, the row that it has, and how often to call them for a batch of about a
// millisecond.
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

// Calibrate measures what probes cost here, on functions that do nothing, and
// has that taken off all durations from then on. It runs a small program of its
// own for some 50 ms, and reads the ring: nothing must be traced yet. Without
// it, durations include the probes.
func (t *Tracer) Calibrate(ctx context.Context) (c Calibration, err error) {
	c.Costs = map[Place]Cost{}
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
	links, err := t.linkCalib(prog)
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
	if c.SeccompHarm, err = t.seccompHarm(ctx, prog); err != nil {
		return c, err
	}
	for at, cost := range c.Costs {
		if err := t.setCost(at, cost); err != nil {
			return c, err
		}
	}
	return c, nil
}

// openCalib makes an unnamed file of the program.
func openCalib() (*os.File, error) {
	code, err := sim.File("calib")
	if err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("ingero-calib", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make the calibration program: %w", err)
	}
	f := os.NewFile(uintptr(fd), "ingero-calib")
	if _, err := f.Write(code); err != nil {
		return nil, errors.Join(fmt.Errorf("write the calibration program: %w", err), f.Close())
	}
	return f, nil
}

// linkCalib attaches to all its functions.
func (t *Tracer) linkCalib(prog *os.File) ([]io.Closer, error) {
	f, err := elf.NewFile(prog)
	if err != nil {
		return nil, fmt.Errorf("read the calibration program: %w", err)
	}
	symbols, err := f.Symbols()
	if err != nil {
		return nil, fmt.Errorf("read the calibration program: %w", err)
	}
	var sites []site
	for _, c := range calibrated {
		i := slices.IndexFunc(symbols, func(s elf.Symbol) bool { return s.Name == c.symbol })
		if i < 0 {
			return nil, fmt.Errorf("the calibration program has no %s", c.symbol)
		}
		s, err := newSite(f, symbols[i], false)
		if err != nil {
			return nil, err
		}
		s.row, s.place = c.row, c.at
		sites = append(sites, s)
	}
	o := Object{Path: fmt.Sprintf("/proc/self/fd/%d", prog.Fd()), Name: prog.Name()}
	return t.link(o, sites, 0, 0)
}

// runCalib calls function i, whose recipe has the flags, and returns the lower
// quartile of the durations that were recorded, zero if none was, and the time a call took by the
// program's own clock: both in nanoseconds.
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
		whole := make([]byte, binary.Size(r)) // a record may lack its end
		copy(whole, b)
		if _, err := binary.Decode(whole, binary.NativeEndian, &r); err == nil && r.Kind == uint8(bpf.IngeroRecordKindRECORD_CALL) {
			durations = append(durations, int(r.DurationNs))
		}
	})
	if len(durations) > 0 {
		slices.Sort(durations)
		inside = durations[len(durations)/4] // others' interrupts and turns only add
	}
	whole, err = perCall(out)
	return inside, whole, err
}

// perCall returns the time that a call took in the fastest batch, in nanoseconds, from the
// last line that the program wrote. The threads of a busy machine preempt the program in most
// batches, and only add to their times.
func perCall(out []byte) (int, error) {
	var said struct {
		Best float64 `json:"best_ps"`
	}
	if err := json.Unmarshal(out, &said); err != nil {
		return 0, fmt.Errorf("calibrate: %w in %q", err, out)
	}
	return int(said.Best / 1000), nil
}

// startCalib runs the program as a target and returns the last line that it wrote.
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
	_, werr := in.Write([]byte{'\n'}) // it waits for this
	err = errors.Join(err, werr, cmd.Wait(), t.Forget(pid))
	lines := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte{'\n'})
	return lines[len(lines)-1], err
}

// seccompHarm lets a function return through a probe under a filter that kills
// for system calls it does not know.
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

// noFilter is how calib ends on a kernel without seccomp filters.
const noFilter = 3
