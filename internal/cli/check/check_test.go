package check

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ingero/internal/probes"
	"ingero/internal/testkit"
	"ingero/internal/wire"
)

const xidFormat = "/sys/kernel/tracing/events/nvidia/nvidia_dev_xid/format"

const status = `Name:	python3
Umask:	0022
State:	S (sleeping)
Tgid:	%PID%
Ngid:	0
Pid:	%PID%
PPid:	1
TracerPid:	0
Uid:	1000	1000	1000	1000
Gid:	1000	1000	1000	1000
NStgid:	%PID%
NSpid:	%PID%
VmSize:	  100 kB
Threads:	1
CapEff:	%CAPS%
Seccomp:	0
`

// gpuMachine is a machine with a GPU, a driver and one process that uses them.
func gpuMachine() map[string]string {
	proc := func(pid, comm, maps string) map[string]string {
		return map[string]string{
			"/proc/" + pid + "/status":  strings.NewReplacer("%PID%", pid, "%CAPS%", "0").Replace(status),
			"/proc/" + pid + "/stat":    pid + " (" + comm + ") S 1 1 1 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 100 0 0\n",
			"/proc/" + pid + "/comm":    comm + "\n",
			"/proc/" + pid + "/cgroup":  "0::/user.slice\n",
			"/proc/" + pid + "/cmdline": comm + "\x00",
			"/proc/" + pid + "/maps":    maps,
		}
	}
	files := map[string]string{
		"/sys/kernel/btf/vmlinux":          strings.Repeat("B", 5242880),
		"/sys/kernel/tracing/events/.keep": "",
		xidFormat: "\tfield:__data_loc char[] dev;\toffset:8;\tsize:4;\tsigned:1;\n\tfield:u32 error_code;\toffset:12;\tsize:4;\tsigned:0;\n" +
			"\tfield:__data_loc char[] msg;\toffset:16;\tsize:4;\tsigned:1;\n",
		"/dev/kmsg":                          "",
		"/proc/stat":                         "btime 1700000000\n",
		"/proc/self/status":                  "CapEff:\t000001ffffffffff\n",
		"/proc/sys/kernel/yama/ptrace_scope": "1\n",
		"/proc/driver/nvidia/version":        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.126.09  Release Build  (x)\n",
		"/proc/driver/nvidia/gpus/0000:01:00.0/information": "Model: \t\t NVIDIA GeForce RTX 3090 Ti\nBus Location: \t 0000:01:00.0\nDevice Minor: \t 0\n",
		"/dev/nvidia0":        "",
		"/usr/bin/nvidia-smi": "#!/bin/sh\necho '00000000:01:00.0, GPU-1, 24564, 580.126.09, NVIDIA GeForce RTX 3090 Ti'\n",
	}
	for k, v := range proc("4821", "python3",
		"7f0000000000-7f0000001000 r-xp 00000000 08:01 11 /usr/lib/x86_64-linux-gnu/libcudart.so.12\n"+
			"7f0000002000-7f0000003000 r-xp 00000000 08:01 12 /usr/lib/x86_64-linux-gnu/libcuda.so.1\n") {
		files[k] = v
	}
	for k, v := range proc("77", "bash", "7f0000000000-7f0000001000 r-xp 00000000 08:01 13 /usr/bin/bash\n") {
		files[k] = v
	}
	return files
}

func features(lacking ...string) []probes.Feature {
	all := []probes.Feature{
		{Name: "btf", Must: true, Cost: "describes the kernel data that the ledger reads"},
		{Name: "programs", Must: true, Cost: "load and pass the verifier"},
		{Name: "session-links", Cost: "half the cost of a return probe, detach in 0.1 s"},
	}
	for i := range all {
		all[i].Have = true
		for _, name := range lacking {
			if all[i].Name == name {
				all[i].Have, all[i].Reason = false, "not supported by this kernel"
			}
		}
	}
	return all
}

// machine writes the files below a new root and returns that machine.
func machine(t *testing.T, files map[string]string) Machine {
	t.Helper()
	root := t.TempDir()
	for path, text := range files {
		path = root + path
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		testkit.WriteProgram(t, path, []byte(text))
	}
	return Machine{Program: "/usr/local/bin/ingero",
		Root: root, Release: "5.15.0-144-generic", EUID: func() int { return 0 },
		Features: func() []probes.Feature { return features() }, HostPIDs: func() (bool, error) { return true, nil },
	}
}

func drop(files map[string]string, paths ...string) {
	for _, path := range paths {
		delete(files, path)
	}
}

// machines are changes of gpuMachine, and whether tracing still works.
var machines = map[string]struct {
	change func(m *Machine, files map[string]string)
	ready  bool
}{
	"all-well": {func(*Machine, map[string]string) {}, true},
	"no-gpu": {func(_ *Machine, files map[string]string) {
		for path := range files {
			if strings.Contains(path, "nvidia") || strings.HasPrefix(path, "/proc/4821/") {
				delete(files, path)
			}
		}
	}, true},
	"no-btf": {func(m *Machine, files map[string]string) {
		delete(files, "/sys/kernel/btf/vmlinux")
		m.Features = func() []probes.Feature { return features("btf", "programs") }
	}, false},
	"old-kernel": {func(m *Machine, _ map[string]string) {
		m.Release = "4.18.0-553.el8"
		m.Features = func() []probes.Feature { return features("programs", "session-links") }
	}, false},
	"backported": {func(m *Machine, files map[string]string) {
		m.Release = "5.14.0-427.el9"
		files[xidFormat] = strings.Replace(files[xidFormat], "error_code", "code", 1)
		m.Features = func() []probes.Feature { return features("session-links") }
	}, true},
	"container": {func(m *Machine, files map[string]string) {
		m.HostPIDs = func() (bool, error) { return false, nil }
		files["/proc/self/status"] = "CapEff:\t00000000a80425fb\n"
		drop(files, xidFormat, "/dev/kmsg")
	}, false},
	"unprivileged": {func(m *Machine, files map[string]string) {
		m.EUID = func() int { return 1000 }
		m.Features = func() []probes.Feature { return features("programs", "session-links") }
		files["/proc/self/status"] = "CapEff:\t0000000000000000\n"
	}, true},
	"file-capabilities": {func(m *Machine, files map[string]string) {
		m.EUID = func() int { return 1000 }
		files["/proc/self/status"] = "CapEff:\t000001c000080000\n"
		files["/proc/sys/kernel/dmesg_restrict"] = "1\n"
		files["/sys/kernel/security/lockdown"] = "none [integrity] confidentiality\n"
		files["/sys/kernel/security/lsm"] = "lockdown,capability,yama,selinux,bpf\n"
		files["/sys/fs/selinux/enforce"] = "1\n"
		files["/proc/self/attr/current"] = "system_u:system_r:container_t:s0:c1,c2\x00"
	}, true},
	"restricted": {func(m *Machine, files map[string]string) {
		m.EUID = func() int { return 1000 }
		files["/proc/self/status"] = "CapEff:\t000001c000080000\n"
		files["/proc/version"] = "Linux version 6.1.0-28-amd64 (debian-kernel@lists.debian.org) (gcc-12) #1 SMP Debian 6.1.119-1\n"
		files["/proc/sys/kernel/perf_event_paranoid"] = "3\n"
		files["/sys/kernel/security/lockdown"] = "none integrity [confidentiality]\n"
		files["/proc/self/attr/current"] = "docker-default (enforce)\n"
	}, false},
	"no-kernel-log": {func(_ *Machine, files map[string]string) { drop(files, "/dev/kmsg") }, true},
	"faults-unread": {func(_ *Machine, files map[string]string) {
		files["/dev/kmsg"] = "3,10,5000,-;NVRM: Xid (PCI:...): 145, RLW_RXPIPE Nonfatal XC0 i0 Link 11\n"
	}, true},
	"hostile-and-hardened": {func(_ *Machine, files map[string]string) {
		for _, name := range []string{"status", "stat", "comm"} {
			path := "/proc/4821/" + name
			files[path] = strings.Replace(files[path], "python3", "e\x1b[2Jvil", 1)
		}
		files["/proc/sys/kernel/yama/ptrace_scope"] = "3\n"
		files["/proc/driver/nvidia/version"] = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.161.07  Sat Feb 17 2024\n"
		drop(files, xidFormat, "/sys/kernel/tracing/events/.keep")
	}, true},
}

func TestCheck(t *testing.T) {
	for name, tt := range machines {
		t.Run(name, func(t *testing.T) {
			files := gpuMachine()
			m := machine(t, nil)
			tt.change(&m, files)
			m.Root = machine(t, files).Root
			r := Run(context.Background(), m)
			if r.Ready != tt.ready {
				t.Errorf("ready = %v, want %v", r.Ready, tt.ready)
			}
			testkit.Golden(t, name+".txt", Text(&r))
			fits(t, Text(&r))
		})
	}
}

// fits fails the test for lines that are too wide.
func fits(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > width && len(strings.Fields(line)) > 3 {
			t.Errorf("%d columns: %q", n, line)
		}
	}
}

func TestJSONSaysTheSame(t *testing.T) {
	m := machine(t, gpuMachine())
	r := Run(context.Background(), m)
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back wire.Check
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if Text(&back) != Text(&r) {
		t.Errorf("the report changes on its way through JSON:\n%s\nwas:\n%s", Text(&back), Text(&r))
	}
}

func TestUnknownPIDNamespace(t *testing.T) {
	m := machine(t, gpuMachine())
	m.HostPIDs = func() (bool, error) { return false, errors.New("own PID namespace: hidden") }
	r := Run(context.Background(), m)
	if !r.Ready || !strings.Contains(Text(&r), "own PID namespace: hidden") {
		t.Errorf("ready = %v, text:\n%s", r.Ready, Text(&r))
	}
}
