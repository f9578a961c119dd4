package guests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"ingero/internal/testkit"
)

// Options say what runs in a guest.
type Options struct {
	Init   string            // a static program; its path on this machine
	Append string            // added to the kernel's command line
	Files  map[string]string // path in the guest to path on this machine
}

// settings make a guest quick: no kernel messages, no address randomisation, and
// no waiting for grace periods, of which removing a link takes one.
const settings = "console=ttyS0 quiet panic=-1 mitigations=off nokaslr audit=0 rcupdate.rcu_expedited=1 "

// deadline is for a machine on which everything else runs too: a guest takes
// three to ten seconds.
const deadline = 4 * time.Minute

// Boot runs a guest to its end and returns what it printed. The test fails
// unless it has a line "GUEST PASS". Downloaded kernels are kept in
// bin/kernels of the repository.
func Boot(t testing.TB, k Kernel, o Options) string {
	t.Helper()
	testkit.NeedKernel(t, "x86-64, as the guests have", runtime.GOARCH == "amd64")
	testkit.NeedTool(t, "qemu-system-x86_64", "apt-get", "dpkg")
	root, err := testkit.Repository()
	if err != nil {
		t.Fatal(err)
	}
	image, err := k.image(filepath.Join(root, "bin", "kernels"))
	if err != nil {
		t.Fatal(err)
	}
	initrd := filepath.Join(t.TempDir(), "initrd")
	if err := writeFile(initrd, o); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-m", "512", "-smp", "1",
		"-nodefaults", "-no-user-config", "-display", "none", "-serial", "stdio", "-no-reboot",
		"-kernel", image, "-initrd", initrd,
		"-append", settings+o.Append)
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

// Libc returns the C library of this machine as files of a guest: the loader
// and the libraries that the programs of sim/ name.
func Libc() (map[string]string, error) {
	const loader = "/lib64/ld-linux-x86-64.so.2"
	files := map[string]string{loader: loader}
	for _, name := range []string{"libc.so.6", "libdl.so.2", "libpthread.so.0"} {
		for _, dir := range []string{"/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/usr/lib"} {
			if _, err := os.Stat(dir + "/" + name); err == nil {
				files["/lib/x86_64-linux-gnu/"+name] = dir + "/" + name
				break
			}
		}
		if files["/lib/x86_64-linux-gnu/"+name] == "" {
			return nil, fmt.Errorf("%s: not found in the usual places", name)
		}
	}
	return files, nil
}
