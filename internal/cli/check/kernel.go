package check

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"ingero/internal/proc"
	"ingero/internal/wire"
)

// floorMajor and floorMinor are the oldest kernel version with all required features. Older
// kernels may have backports, so the features decide, not the version.
const floorMajor, floorMinor = 5, 15

func kernelLine(f *facts) []wire.CheckLine {
	release := cmp.Or(f.Release, proc.KernelRelease())
	l := wire.CheckLine{ID: "kernel", Name: "Kernel version", State: OK, Value: release, Note: fmt.Sprintf("need %d.%d+", floorMajor, floorMinor)}
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		l.State, l.Note = Lack, "cannot parse this version"
		return []wire.CheckLine{l}
	}
	if major > floorMajor || major == floorMajor && minor >= floorMinor {
		return []wire.CheckLine{l}
	}
	if p := f.feature("programs"); p != nil && p.Have {
		l.Note = fmt.Sprintf("older than %d.%d, but has the required features", floorMajor, floorMinor)
		return []wire.CheckLine{l}
	}
	l.State = Lack // the feature lines decide whether tracing works
	l.Note = fmt.Sprintf("older than %d.%d: ingero may not work here", floorMajor, floorMinor)
	l.Do = "install a newer kernel (Ubuntu 22.04, Debian 12, RHEL 9 have one)"
	return []wire.CheckLine{l}
}

func btfLine(f *facts) []wire.CheckLine {
	const path = "/sys/kernel/btf/vmlinux"
	l := wire.CheckLine{ID: "btf", Name: "BTF support", State: OK, Value: path}
	st, err := os.Stat(f.Root + path)
	if err != nil {
		l.State, l.Value, l.Note = Fail, path+" is absent", "ingero cannot trace here"
		l.Do = "install a kernel with CONFIG_DEBUG_INFO_BTF=y (Ubuntu 20.10+, Debian 11+, RHEL 8.2+ have it)"
		return []wire.CheckLine{l}
	}
	l.Note = fmt.Sprintf("available (%d bytes)", st.Size())
	if x := f.feature("btf"); x != nil && !x.Have && f.mayTry() {
		l.State, l.Note = Fail, "ingero cannot read it: "+x.Reason
	}
	return []wire.CheckLine{l}
}

func tracefsLine(f *facts) []wire.CheckLine {
	l := wire.CheckLine{ID: "tracefs", Name: "tracefs", State: OK}
	for _, path := range []string{"/sys/kernel/tracing", "/sys/kernel/debug/tracing"} {
		if _, err := os.Stat(f.Root + path + "/events"); err == nil {
			l.Value = path
			return []wire.CheckLine{l}
		}
	}
	l.State, l.Value = Lack, "not mounted, or not readable"
	l.Note = "CUDA calls are traced without it; the kernel's tracepoints cannot be listed by name"
	l.Do = "sudo mount -t tracefs tracefs /sys/kernel/tracing"
	return []wire.CheckLine{l}
}

// featureLines returns a line for each tested kernel feature. Without privileges, no feature is
// tested; the line on privileges says so.
func featureLines(f *facts) []wire.CheckLine {
	tried := f.mayTry()
	var out []wire.CheckLine
	for i := range f.features {
		x := &f.features[i]
		if x.Name == "btf" {
			continue // has its own line
		}
		l := wire.CheckLine{ID: x.Name, Name: title(x.Name), State: OK, Value: x.Cost}
		if !x.Have {
			l.Value, l.Note = "absent: "+x.Cost, x.Reason
			switch l.State = Lack; {
			case !tried:
				l.Value, l.Note = "not tested: "+x.Cost, ""
			case x.Must:
				l.State = Fail
			}
		}
		out = append(out, l)
	}
	return out
}

func pressureLine(f *facts) []wire.CheckLine {
	const path = "/proc/pressure/memory"
	l := wire.CheckLine{ID: "pressure", Name: "Pressure (PSI)", State: OK, Value: "shows how long threads stalled for lack of CPU, memory or I/O"}
	if _, err := f.read(path); err != nil {
		l.State, l.Value, l.Note = Lack, "absent", "ingero cannot tell how long the threads of this machine stalled for lack of CPU, memory or I/O"
		l.Do = "boot with psi=1 (the kernel needs CONFIG_PSI=y)"
	}
	return []wire.CheckLine{l}
}

// title converts an ID to a title: "session-links" to "Session links".
func title(id string) string {
	switch id {
	case "":
		return ""
	case "programs":
		return "BPF programs"
	}
	return strings.ToUpper(id[:1]) + strings.ReplaceAll(id[1:], "-", " ")
}

func ptraceLine(f *facts) []wire.CheckLine {
	const path = "/proc/sys/kernel/yama/ptrace_scope"
	l := wire.CheckLine{ID: "ptrace_scope", Name: "ptrace_scope", State: OK}
	v, err := f.read(path)
	if err != nil {
		l.Value, l.Note = "no Yama", "Python frames can be read"
		return []wire.CheckLine{l}
	}
	l.Value = "kernel.yama.ptrace_scope = " + v
	switch v {
	case "0":
		l.Note = "processes of the same user may read each other's memory"
	case "1", "2":
		l.Note = "ingero trace can read Python frames, as root or with CAP_SYS_PTRACE"
	default:
		l.State = Lack
		l.Note = "no process may read another's memory: ingero reads Python frames through the kernel (Linux 5.18), and ingero run cannot start programs"
		l.Do = "start the program first, then run: ingero trace --pid PID; or set kernel.yama.ptrace_scope=1 in /etc/sysctl.d and reboot"
	}
	return []wire.CheckLine{l}
}
