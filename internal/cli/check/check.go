package check

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ingero/internal/gpu"
	"ingero/internal/lock"
	"ingero/internal/probes"
	"ingero/internal/proc"
	"ingero/internal/wire"
)

// States of a line.
const (
	OK   = "ok"
	Lack = "lacking" // tracing works, with limitations
	Fail = "failed"  // tracing cannot work
)

// linesIn returns the number of lines in a state.
func linesIn(r *wire.Check, state string) int {
	n := 0
	for i := range r.Lines {
		if r.Lines[i].State == state {
			n++
		}
	}
	return n
}

// Machine is the machine to inspect. The zero value is this machine.
type Machine struct {
	Root     string // prefix of /proc, /sys and /usr; empty: none
	Program  string // ingero's executable; empty: this one
	Release  string // kernel release; empty: the running kernel's
	EUID     func() int
	Features func() []probes.Feature
	HostPIDs func() (bool, error)
	Lock     lock.Place // trace lock; the zero value is not checked
}

// facts holds what several lines use, read once.
type facts struct {
	Machine
	fs       proc.FS
	features []probes.Feature
	procs    []proc.Process
	procsErr error
	gpus     gpu.Info
	gpuErr   error
}

// lines lists the checks in order. Each returns any number of lines.
var lines = []func(*facts) []wire.CheckLine{
	kernelLine, btfLine, privilegeLine, needLine, lockdownLine, confinementLine, pidLine, tracefsLine, featureLines, pressureLine,
	driverLine, gpuLine, faultLine, cudartLine, libcudaLine, processLine, ptraceLine, lockLine,
}

// Run performs all checks. It takes well under a second.
func Run(ctx context.Context, m Machine) wire.Check {
	if m.EUID == nil {
		m.EUID = os.Geteuid
	}
	if m.Features == nil {
		m.Features = probes.Probe
	}
	f := &facts{Machine: m, fs: proc.FS{Root: m.Root + "/proc", Boot: time.Unix(0, 0)}}
	if m.HostPIDs == nil {
		f.HostPIDs = f.fs.HostPIDs
	}
	f.features = m.Features()
	f.procs, _, f.procsErr = f.fs.Scan(ctx, proc.Selector{All: true}, proc.Names{})
	f.gpus, f.gpuErr = gpu.Machine{Root: m.Root}.Read(ctx)
	var r wire.Check
	for _, line := range lines {
		r.Lines = append(r.Lines, line(f)...)
	}
	r.Ready, r.Tried = linesIn(&r, Fail) == 0, f.mayTry()
	return r
}

// feature returns the feature with this name, nil if there is none.
func (f *facts) feature(name string) *probes.Feature {
	for i := range f.features {
		if f.features[i].Name == name {
			return &f.features[i]
		}
	}
	return nil
}

// mayTry reports whether privileges suffice to test features.
func (f *facts) mayTry() bool {
	caps, err := f.capabilities()
	return f.EUID() == 0 || err == nil && caps&(1<<wanted[0].bit) != 0
}

// read returns a file's content without surrounding white space.
func (f *facts) read(path string) (string, error) {
	b, err := os.ReadFile(f.Root + path)
	return strings.TrimSpace(string(b)), err
}

func privilegeLine(f *facts) []wire.CheckLine {
	l := wire.CheckLine{ID: "privileges", Name: "Privileges", State: OK}
	var lacking []string
	caps, err := f.capabilities()
	if err != nil {
		lacking = []string{err.Error()}
	}
	for _, c := range wanted {
		if err == nil && caps&(1<<c.bit) == 0 {
			lacking = append(lacking, c.name)
		}
	}
	root := f.EUID() == 0
	switch {
	case len(lacking) == 0 && root:
		l.Value = "root"
	case len(lacking) == 0:
		l.Value = "CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE"
	case root:
		l.State, l.Value = Fail, "root, but without "+strings.Join(lacking, ", ")
		l.Note, l.Do = "the container lacks the privileges to trace", "start the container with --privileged --pid=host (Kubernetes: privileged: true, hostPID: true)"
	default:
		l.State, l.Value = Lack, "not root"
		l.Note, l.Do = "tracing and testing the kernel's features require root", "sudo ingero check"
	}
	return []wire.CheckLine{l}
}

// wanted lists the capabilities that tracing needs.
var wanted = []struct {
	bit  uint
	name string
}{{unix.CAP_BPF, "CAP_BPF"}, {unix.CAP_PERFMON, "CAP_PERFMON"}, {unix.CAP_SYS_PTRACE, "CAP_SYS_PTRACE"}}

func (f *facts) capabilities() (uint64, error) {
	text, err := f.read("/proc/self/status")
	if err != nil {
		return 0, err
	}
	var caps uint64
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(line, "CapEff:"); ok {
			_, err := fmt.Sscanf(v, "%x", &caps)
			return caps, err
		}
	}
	return 0, errors.New("/proc/self/status has no CapEff line")
}

func pidLine(f *facts) []wire.CheckLine {
	host, err := f.HostPIDs()
	l := wire.CheckLine{ID: "pid-namespace", Name: "PID namespace", State: OK, Value: "the host's"}
	switch {
	case err != nil:
		l.State, l.Value = Lack, err.Error()
	case !host:
		l.State, l.Value = Fail, "the container's own"
		l.Note, l.Do = "the kernel reports the host's PIDs, so ingero cannot trace from here",
			"use the host's PID namespace: docker run --pid=host; Kubernetes: hostPID: true"
	}
	return []wire.CheckLine{l}
}

func lockLine(f *facts) []wire.CheckLine {
	if len(f.Lock.Dirs) == 0 {
		return nil
	}
	h, err := f.Lock.Holder()
	switch {
	case err != nil:
		return []wire.CheckLine{{ID: "lock", Name: "Other ingero", State: Lack, Value: err.Error()}}
	case h != nil:
		return []wire.CheckLine{{ID: "lock", Name: "Other ingero", State: Lack, Value: fmt.Sprintf("already tracing: pid %d", h.PID),
			Note: "only one trace can run on a machine at a time", Do: "ingero status", Items: []wire.CheckItem{{PID: uint32(h.PID), Name: h.Command}}}}
	}
	return nil
}
