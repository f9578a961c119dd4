package check

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"ingero/internal/privilege"
	"ingero/internal/wire"
)

// need is a row of needs. file means that the capability may be set on the program's file,
// where all users who may start it get it. A capability to read any file is for services only.
type need struct {
	feature, without, instead string
	capability                int
	must, file                bool
	when                      func(*facts) bool // nil: always
}

// needs lists the features and their capabilities, most important first.
var needs = []need{
	{feature: "programs and maps in the kernel", capability: unix.CAP_BPF, must: true, file: true, without: "nothing is traced"},
	{feature: "probes, scheduler events, detection of new libraries", capability: unix.CAP_PERFMON, must: true, file: true, without: "nothing is traced"},
	{feature: "libraries, memory and Python frames of other users' processes and of privileged programs", capability: unix.CAP_SYS_PTRACE, file: true,
		without: "only the user's own processes are traced"},
	{feature: "libraries that were deleted or are in another mount namespace", capability: unix.CAP_CHECKPOINT_RESTORE, file: true, instead: "CAP_SYS_ADMIN",
		without: "such libraries are probed only if their path still leads to them"},
	{feature: "GPU faults from the kernel log", capability: unix.CAP_SYSLOG, file: true, instead: "CAP_SYS_ADMIN",
		without: "XIDs come only from the driver's tracepoint (driver 575)", when: func(f *facts) bool { return f.flag("/proc/sys/kernel/dmesg_restrict", 1) }},
	{feature: "GPU faults from the driver's tracepoint, symbol files that only their owner may read", capability: unix.CAP_DAC_READ_SEARCH,
		without: "XIDs come only from the kernel log, and functions in such files have no names"},
	{feature: "performance events, on kernels that restrict them to the administrator (perf_event_paranoid 3 or higher)", capability: unix.CAP_SYS_ADMIN, must: true,
		without: "new libraries are not detected", when: func(f *facts) bool { return f.patchedParanoid() }},
	{feature: "cost of tracepoints, for --max-overhead", capability: unix.CAP_SYS_ADMIN, without: "the overhead excludes tracepoints"},
}

// capabilityNames has the names that setcap and systemd use.
var capabilityNames = map[int]string{unix.CAP_BPF: "cap_bpf", unix.CAP_PERFMON: "cap_perfmon", unix.CAP_SYS_PTRACE: "cap_sys_ptrace",
	unix.CAP_CHECKPOINT_RESTORE: "cap_checkpoint_restore", unix.CAP_SYSLOG: "cap_syslog", unix.CAP_DAC_READ_SEARCH: "cap_dac_read_search",
	unix.CAP_SYS_ADMIN: "cap_sys_admin"}

// flag reports whether the number in a file is at least least.
func (f *facts) flag(path string, least int) bool {
	text, err := f.read(path)
	if err != nil {
		return false
	}
	var n int
	_, err = fmt.Sscan(text, &n)
	return err == nil && n >= least
}

// patchedParanoid reports whether the kernel restricts performance events to CAP_SYS_ADMIN:
// patched kernels of Debian (3) and Ubuntu (4) do. In other kernels, 3 means the same as 2.
func (f *facts) patchedParanoid() bool {
	version, _ := f.read("/proc/version")
	patched := strings.Contains(version, "Debian") || strings.Contains(version, "Ubuntu")
	return patched && f.flag("/proc/sys/kernel/perf_event_paranoid", 3)
}

// needLine reports the capability that each feature needs here.
func needLine(f *facts) []wire.CheckLine {
	caps, err := f.capabilities()
	if err != nil {
		return nil // the line on privileges reports it
	}
	has := privilege.Set(caps)
	l := wire.CheckLine{ID: "capabilities", Name: "Capabilities", State: OK}
	var files, units []string
	lacks, all := 0, 0
	for _, n := range needs {
		if n.when != nil && !n.when(f) {
			continue
		}
		all++
		x := wire.CheckNeed{Feature: n.feature, Capability: strings.ToUpper(capabilityNames[n.capability]), Must: n.must, Without: n.without, Instead: n.instead,
			Has: has.Has(n.capability) || n.instead != "" && has.Has(unix.CAP_SYS_ADMIN)}
		l.Needs = append(l.Needs, x)
		if n.capability != unix.CAP_SYS_ADMIN || n.must { // do not suggest CAP_SYS_ADMIN for a statistic
			units = append(units, x.Capability)
		}
		if n.file || n.must {
			files = append(files, capabilityNames[n.capability])
		}
		if !x.Has {
			lacks++
			if n.must || n.file { // other capabilities are for services
				l.State = Lack
			}
		}
	}
	if lacks == 0 {
		l.Value = fmt.Sprintf("all that %d features require", all)
		return []wire.CheckLine{l}
	}
	l.Value = fmt.Sprintf("%d of %d features lack a capability", lacks, all)
	if l.State == OK {
		return []wire.CheckLine{l}
	}
	l.Do = fmt.Sprintf("run ingero as root; or for a user: sudo setcap %s=ep %s; or in a systemd unit: AmbientCapabilities=%s", strings.Join(files, ","), f.program(), strings.Join(unique(units), " "))
	return []wire.CheckLine{l}
}

func unique(all []string) (out []string) {
	seen := map[string]bool{}
	for _, s := range all {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}

// program returns the path of this program's file for setcap, which accepts no links.
func (f *facts) program() string {
	if f.Program != "" {
		return f.Program
	}
	path, err := os.Executable()
	if err != nil {
		return "/usr/local/bin/ingero"
	}
	return path
}

// needText formats a missing need; "" if the process has the capability.
func needText(n *wire.CheckNeed) string {
	if n.Has {
		return ""
	}
	return fmt.Sprintf("%s is missing: %s (needed for: %s)", n.Capability, n.Without, n.Feature)
}

// lockdownLine reports what lockdown denies even to root.
func lockdownLine(f *facts) []wire.CheckLine {
	l := wire.CheckLine{ID: "lockdown", Name: "Kernel lockdown", State: OK, Value: "none"}
	text, err := f.read("/sys/kernel/security/lockdown")
	if err != nil {
		return nil // no lockdown, or not readable
	}
	_, mode, _ := strings.Cut(text, "[")
	mode, _, _ = strings.Cut(mode, "]")
	switch l.Value = mode; mode {
	case "none":
	case "integrity":
		l.Note = "ingero can trace in this mode"
	case "confidentiality":
		l.State = Fail
		l.Note = "BPF programs may not read kernel memory, so ingero cannot trace"
		l.Do = "boot with lockdown=integrity (Secure Boot alone requires no more)"
	default:
		l.State, l.Note = Lack, "ingero does not know this mode"
	}
	return []wire.CheckLine{l}
}

// confinementLine reports the security module that confines this process.
func confinementLine(f *facts) []wire.CheckLine {
	modules, err := f.read("/sys/kernel/security/lsm")
	label, _ := f.read("/proc/self/attr/current")
	label = strings.Trim(label, "\x00\n ")
	if err != nil && label == "" {
		return nil
	}
	l := wire.CheckLine{ID: "confinement", Name: "Security module", State: OK, Value: "none that confines ingero"}
	enforce, _ := f.read("/sys/fs/selinux/enforce")
	switch {
	case enforce == "1" && !strings.Contains(label, ":unconfined_t:"):
		l.Value = "SELinux enforces its policy on " + label
		l.Note = "if SELinux denies bpf, perf_event or ptrace, tracing fails with \"not permitted\""
		l.Do = "to list the denials: sudo ausearch -m avc -c ingero"
	case enforce == "1":
		l.Value = "SELinux, " + label
	case strings.Contains(label, "(enforce)"):
		l.State, l.Value = Lack, "AppArmor profile "+label
		l.Note = "the profile may deny reading other processes and mounting tracefs"
		l.Do = "docker run --security-opt apparmor=unconfined; Kubernetes: appArmorProfile: {type: Unconfined}"
	case modules != "":
		l.Note = "active: " + modules
	}
	return []wire.CheckLine{l}
}
