package guests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"ingero/internal/testkit"
)

// Options configure a guest.
type Options struct {
	Init   string            // path of a static program on this machine
	Append string            // appended to the kernel's command line
	Files  map[string]string // path in the guest to path on this machine
	Exact  bool              // its clock counts its instructions, so that a busy machine changes nothing; a third slower
}

// settings make a guest fast: no kernel messages, no address randomization, and expedited grace
// periods, because each removal of a link waits for one.
const settings = "quiet panic=-1 mitigations=off nokaslr audit=0 rcupdate.rcu_expedited=1 "

// deadline ends a guest that hangs. The longest takes two minutes on an idle machine.
const deadline = 10 * time.Minute

// machines has the emulator of each architecture, and its serial line.
var machines = map[string]struct {
	emulator, console string
	args              []string
}{
	"amd64": {"qemu-system-x86_64", "ttyS0", nil},
	"arm64": {"qemu-system-aarch64", "ttyAMA0", []string{"-machine", "virt"}},
}

// Boot runs a guest to its end and returns its output. The test fails unless a line is "GUEST
// PASS". Downloaded kernels are kept in bin/kernels of the repository.
func Boot(t testing.TB, k Kernel, o Options) string {
	t.Helper()
	testkit.NeedKernel(t, "x86-64, as the guests have", runtime.GOARCH == "amd64")
	m := machines[k.Arch]
	testkit.NeedTool(t, m.emulator, "apt-get", "dpkg")
	root, err := testkit.Repository()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	image, initrd := filepath.Join(dir, "image"), filepath.Join(dir, "initrd")
	if err := k.copyImage(filepath.Join(root, "bin", "kernels"), image); err != nil { // Module may remove the kept one
		t.Fatal(err)
	}
	if err := writeFile(initrd, o); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	args := append(slices.Clone(m.args), "-accel", "tcg", "-cpu", "max", "-m", "512", "-smp", "1",
		"-nodefaults", "-no-user-config", "-display", "none", "-serial", "stdio", "-no-reboot",
		"-kernel", image, "-initrd", initrd, "-append", "console="+m.console+" "+settings+o.Append)
	if o.Exact {
		args = append(args, "-icount", "shift=3,sleep=off") // 8 ns each; sleeps end at once
	}
	cmd := exec.CommandContext(ctx, m.emulator, args...)
	out, err := cmd.CombinedOutput()
	text := strings.ReplaceAll(string(out), "\r", "")
	if err = errors.Join(err, ctx.Err()); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if !strings.Contains(text, "\nGUEST PASS\n") {
		t.Fatalf("the guest did not pass:\n%s", text)
	}
	return text
}

func writeFile(path string, o Options) error {
	files := map[string]string{"init": o.Init}
	for name, from := range o.Files {
		files[name] = from
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(writeInitrd(f, files), f.Close())
}

// libraries are the C library files that the programs of sim/ need, by their paths in Debian's
// package of an architecture.
var libraries = map[string][]string{
	"amd64": {"/lib64/ld-linux-x86-64.so.2", "/lib/x86_64-linux-gnu/libc.so.6", "/lib/x86_64-linux-gnu/libdl.so.2", "/lib/x86_64-linux-gnu/libpthread.so.0"},
	"arm64": {"/lib/ld-linux-aarch64.so.1", "/lib/aarch64-linux-gnu/libc.so.6", "/lib/aarch64-linux-gnu/libdl.so.2", "/lib/aarch64-linux-gnu/libpthread.so.0"},
}

// Libc returns the C library as files of a guest of the kernel's architecture: this machine's own,
// or Debian's, which is kept beside the kernels.
func Libc(k Kernel) (map[string]string, error) {
	tree := ""
	if k.Arch != runtime.GOARCH {
		root, err := testkit.Repository()
		if err != nil {
			return nil, err
		}
		tree = filepath.Join(root, "bin", "kernels", "libc-"+k.Arch)
		if err := foreignLibc(k.Arch, tree); err != nil {
			return nil, err
		}
	}
	files := map[string]string{}
	for _, path := range libraries[k.Arch] {
		for _, dir := range []string{filepath.Dir(path), "/lib64", "/usr/lib64", "/usr/lib"} {
			if there := filepath.Join(tree, dir, filepath.Base(path)); files[path] == "" && exists(there) {
				files[path] = there
			}
		}
		if files[path] == "" {
			return nil, fmt.Errorf("%s: not found in the usual places", filepath.Base(path))
		}
	}
	return files, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// foreignLibc downloads Debian's C library of an architecture into tree, unless it is there.
func foreignLibc(arch, tree string) error {
	if exists(tree) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(tree), 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(tree), "libc")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	if err := os.Chmod(tmp, 0o755); err != nil { // apt downloads as another user
		return err
	}
	a, err := aptOf(arch, "", tmp)
	if err != nil {
		return err
	}
	if err := a.unpack("libc6"); err != nil {
		return err
	}
	return os.Rename(filepath.Join(tmp, "tree"), tree)
}
