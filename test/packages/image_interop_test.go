//go:build interop

package packages

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ingero/internal/testkit"
	"ingero/sim"
)

// refused runs a command that must fail.
func refused(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err == nil {
		t.Errorf("%s %v succeeds:\n%s", name, args, out)
	}
}

// The image's root file system works without a container engine: commands that need no privileges
// run as any user, in namespaces of their own and without a capability.
func TestImage(t *testing.T) {
	testkit.NeedBPF(t)
	testkit.NeedTool(t, "unshare", "setpriv")
	dir := t.TempDir()
	for up := dir; up != "/tmp" && up != "/"; up = filepath.Dir(up) {
		if err := os.Chmod(up, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	root := filepath.Join(dir, "root")
	cmd := exec.Command("../../tools/rootfs.sh", root)
	cmd.Env = append(os.Environ(), "VERSION=v1.2.3", "COMMIT=abc", "BUILD_DATE=2026-01-02")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	record(t, root)

	inside := func(uid string, args ...string) (string, error) {
		cmd := exec.Command("unshare", append([]string{"--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "sh", "-c",
			`mount -t proc proc "$0/proc" && mount -t tmpfs -o mode=1777 none "$0/tmp" && uid=$1 && shift &&
			cd "$0" && exec setpriv --no-new-privs --bounding-set=-all,+sys_chroot,+setuid,+setgid --inh-caps=-all chroot --userspec="$uid:$uid" . /usr/bin/ingero "$@"`, root, uid}, args...)...)
		cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp", "TZ=Asia/Tokyo", "container=oci", "INGERO_NO_UPDATE_NOTIFIER=1"}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for _, x := range []struct {
		args []string
		want string
		code int
	}{
		{[]string{"version"}, "ingero v1.2.3 (commit: abc, built: 2026-01-02)", 0},
		{[]string{"check"}, "not root", 1},
		{[]string{"demo", "--no-gpu", "incident"}, "Root cause", 0},
		{[]string{"query"}, "cudaLaunchKernel", 0},
		{[]string{"explain"}, "train (", 0},
		{[]string{"demo", "--no-gpu", "incident"}, " JST", 0}, // time zones are included
		{[]string{"config", "show"}, "/var/lib/ingero/ingero.db", 0},
	} {
		out, err := inside("65534", x.args...)
		var exit *exec.ExitError
		code := 0
		if errors.As(err, &exit) {
			code = exit.ExitCode()
		}
		if !strings.Contains(out, x.want) || code != x.code {
			t.Errorf("%v: code %d\n%s", x.args, code, out)
		}
	}
	if out, err := inside("0", "trace", "--duration", "1s"); err == nil || !strings.Contains(out, "ingero: ") {
		t.Errorf("trace in a PID namespace: %v\n%s", err, out)
	}
	size(t, root)
}

// record makes a short recording at the image's default path.
func record(t *testing.T, root string) {
	t.Helper()
	stack, err := sim.Extract(filepath.Join(t.TempDir(), "sim"))
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(root, "var/lib/ingero")
	output(t, "unshare", "--mount", "sh", "-c", `mount -t tmpfs none /run && "$0/usr/bin/ingero" run --db "$1/ingero.db" -- "$2" --steps 50`, root, data, stack.Program("train"))
	output(t, "chmod", "-R", "a+rX", data)
}

// size checks the size of the image, and that nothing in it is world-writable.
func size(t *testing.T, root string) {
	t.Helper()
	var bytes int64
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().IsRegular() {
			bytes += info.Size()
			if info.Mode()&0o022 != 0 || info.Mode()&fs.ModeSetuid != 0 {
				t.Errorf("%s: %v", path, info.Mode())
			}
		}
		return err
	})
	const most = 64 << 20
	if t.Logf("the image has %.1f MiB", float64(bytes)/(1<<20)); err != nil || bytes > most {
		t.Errorf("%d bytes, %v", bytes, err)
	}
	for _, name := range []string{"etc/ssl/certs/ca-certificates.crt", "etc/passwd", "usr/share/doc/ingero/THIRD_PARTY.txt", "usr/share/doc/ingero/sbom.json"} {
		if info, err := os.Stat(filepath.Join(root, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
