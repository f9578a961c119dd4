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
)

// State is how a line stands.
type State string

// The states.
const (
	OK   State = "ok"
	Lack State = "lacking" // tracing works, less well
	Fail State = "failed"  // tracing cannot work
)

// Line is one thing that was looked at.
type Line struct {
	ID    string `json:"id"` // short and stable
	Name  string `json:"name"`
	State State  `json:"state"`
	Value string `json:"value"`          // what was found
	Note  string `json:"note,omitempty"` // what that means or costs
	Do    string `json:"do,omitempty"`   // what to type
	Items []Item `json:"items,omitempty"`
	Needs []Need `json:"needs,omitempty"` // which capability each feature takes

	// Of a library that a process has loaded.
	BuildID  string   `json:"build_id,omitempty"`
	Versions []string `json:"versions,omitempty"` // of its symbols
	Probes   int      `json:"probes,omitempty"`   // functions that are traced
	Lacks    []string `json:"lacks,omitempty"`    // functions that would be, and that it does not have
	Unprobed []string `json:"unprobed,omitempty"` // functions of the API that it has and that are not traced
}

// Item is one of several things that a line found: a process, a library.
type Item struct {
	PID  uint32 `json:"pid,omitempty"`
	Name string `json:"name"`
	Path string `json:"path,omitempty"`
	MiB  int64  `json:"mib,omitempty"`
}

// Report is all lines, in order.
type Report struct {
	PID   uint32 `json:"pid,omitempty"` // of a process alone
	Comm  string `json:"comm,omitempty"`
	Ready bool   `json:"ready"` // nothing failed
	Tried bool   `json:"tried"` // privileges were enough to try the kernel's features
	Lines []Line `json:"lines"`
}

// Count returns how many lines are in a state.
func (r *Report) Count(s State) int {
	n := 0
	for i := range r.Lines {
		if r.Lines[i].State == s {
			n++
		}
	}
	return n
}

// Machine is where to look. The zero value is this machine.
type Machine struct {
	Root     string // in front of /proc, /sys, /usr; empty: none
	Program  string // its own file; empty: this one
	Release  string // of the kernel; empty: the running one's
	EUID     func() int
	Features func() []probes.Feature
	HostPIDs func() (bool, error)
	Lock     lock.Place // its holder is told of; the zero value looks for none
}

// facts are read once and used by several lines.
type facts struct {
	Machine
	fs       proc.FS
	features []probes.Feature
	procs    []proc.Process
	procsErr error
	gpus     gpu.Info
	gpuErr   error
}

// lines are what is looked at, in order. Each makes any number of lines.
var lines = []func(*facts) []Line{
	kernelLine, btfLine, privilegeLine, needLine, lockdownLine, confinementLine, pidLine, tracefsLine, featureLines, pressureLine,
	driverLine, gpuLine, faultLine, cudartLine, libcudaLine, processLine, ptraceLine, lockLine,
}

// Run looks at everything. It takes well under a second.
func Run(ctx context.Context, m Machine) Report {
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
	f.procs, f.procsErr = f.fs.Scan(ctx, proc.Selector{All: true}, proc.Names{})
	f.gpus, f.gpuErr = gpu.Machine{Root: m.Root}.Read(ctx)
	var r Report
	for _, line := range lines {
		r.Lines = append(r.Lines, line(f)...)
	}
	r.Ready, r.Tried = r.Count(Fail) == 0, f.mayTry()
	return r
}

// feature finds a feature by its name, nil when there is none.
func (f *facts) feature(name string) *probes.Feature {
	for i := range f.features {
		if f.features[i].Name == name {
			return &f.features[i]
		}
	}
	return nil
}

// mayTry tells whether features could be tried.
func (f *facts) mayTry() bool {
	caps, err := f.capabilities()
	return f.EUID() == 0 || err == nil && caps&(1<<wanted[0].bit) != 0
}

// read returns a file's content without white space around it.
func (f *facts) read(path string) (string, error) {
	b, err := os.ReadFile(f.Root + path)
	return strings.TrimSpace(string(b)), err
}

func privilegeLine(f *facts) []Line {
	l := Line{ID: "privileges", Name: "Privileges", State: OK}
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
	return []Line{l}
}

// wanted are the capabilities that tracing uses.
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

func pidLine(f *facts) []Line {
	host, err := f.HostPIDs()
	l := Line{ID: "pid-namespace", Name: "PID namespace", State: OK, Value: "the host's"}
	switch {
	case err != nil:
		l.State, l.Value = Lack, err.Error()
	case !host:
		l.State, l.Value = Fail, "the container's own"
		l.Note, l.Do = "the kernel reports the host's PIDs, so ingero cannot trace from here",
			"use the host's PID namespace: docker run --pid=host; Kubernetes: hostPID: true"
	}
	return []Line{l}
}

func lockLine(f *facts) []Line {
	if len(f.Lock.Dirs) == 0 {
		return nil
	}
	h, err := f.Lock.Holder()
	switch {
	case err != nil:
		return []Line{{ID: "lock", Name: "Other ingero", State: Lack, Value: err.Error()}}
	case h != nil:
		return []Line{{ID: "lock", Name: "Other ingero", State: Lack, Value: fmt.Sprintf("already tracing: pid %d", h.PID),
			Note: "only one trace can run on a machine at a time", Do: "ingero status", Items: []Item{{PID: uint32(h.PID), Name: h.Command}}}}
	}
	return nil
}
