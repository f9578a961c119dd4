package testkit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"
)

// NeedRoot ends the test unless it runs as root.
func NeedRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		lack(t, "root")
	}
}

// NeedBPF ends the test unless this process may load BPF programs on a kernel with BTF. It mounts
// tracefs if necessary.
func NeedBPF(t testing.TB) {
	t.Helper()
	NeedRoot(t)
	if err := bpfWorks(); err != nil {
		lack(t, "BPF: "+err.Error())
	}
}

var bpfWorks = sync.OnceValue(func() error {
	if _, err := os.Stat("/sys/kernel/btf/vmlinux"); err != nil {
		return errors.New("the kernel has no BTF (CONFIG_DEBUG_INFO_BTF)")
	}
	if err := features.HaveMapType(ebpf.RingBuf); err != nil {
		return fmt.Errorf("ring buffer map: %w", err)
	}
	return mountTracefs()
})

const tracefs = "/sys/kernel/tracing"

func mountTracefs() error {
	var st unix.Statfs_t
	if unix.Statfs(tracefs, &st) == nil && st.Type == unix.TRACEFS_MAGIC {
		return nil
	}
	if err := unix.Mount("tracefs", tracefs, "tracefs", 0, ""); err != nil {
		return fmt.Errorf("mount tracefs at %s: %w", tracefs, err)
	}
	return nil
}

// NeedKernel ends the test unless the kernel has a feature. what names it, as in "uprobe_multi
// links (Linux 6.6)".
func NeedKernel(t testing.TB, what string, have bool) {
	t.Helper()
	if !have {
		lack(t, "a kernel with "+what)
	}
}

// NeedMount ends the test if a mount failed with err.
func NeedMount(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		lack(t, "to mount a file system: "+err.Error())
	}
}

// CXX is the compiler of the tests' C++ programs. It is in the package clang-14, which depends on
// the C++ library. Only tests with the build tag interop use g++.
const CXX = "clang++-14"

// NeedTool ends the test unless every named program is in PATH.
func NeedTool(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			lack(t, name+" in PATH (make deps installs it)")
		}
	}
}

// NeedGPU ends the test unless an NVIDIA driver is loaded. A missing GPU is a failure only with
// INGERO_GPU=1, since CI machines have none.
func NeedGPU(t testing.TB) {
	t.Helper()
	if _, err := os.Stat("/proc/driver/nvidia/version"); err == nil {
		return
	}
	const what = "an NVIDIA GPU with its driver"
	if os.Getenv("INGERO_GPU") == "1" {
		t.Fatalf("needs %s, and INGERO_GPU=1 says it is there", what)
	}
	t.Skip("needs " + what)
}

// lack skips or fails a test whose requirement is missing.
func lack(t testing.TB, what string) {
	t.Helper()
	what = strings.TrimSpace(what)
	if os.Getenv("CI") == "true" {
		t.Fatalf("needs %s, which CI must have", what)
	}
	t.Skip("needs " + what)
}
