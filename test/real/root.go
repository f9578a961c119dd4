package real

import (
	"os"
	"path/filepath"
	"testing"

	"ingero/internal/testkit"
)

// enter turns the directory into a root with devices, processes and the test's own files, visible
// only to this process and its children. Arguments: the root, the files, the command.
const enter = `set -e
root=$1 work=$2
shift 2
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/tmp"
mount --bind "$work" "$root/srv"
exec "$@"`

// Root returns the directory that tools/torch-root.sh made. It fails the test if there is none.
func Root(t testing.TB) string {
	t.Helper()
	testkit.NeedBPF(t)
	testkit.NeedTool(t, "unshare", "chroot")
	dir := os.Getenv("TORCH_ROOT")
	if dir == "" {
		tree, err := testkit.Repository()
		if err != nil {
			t.Fatal(err)
		}
		dir = filepath.Join(tree, "bin", "torch")
	}
	dir, err := filepath.Abs(filepath.Join(dir, "root"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "opt", "ingero", "libcudnn.so.9")); err != nil {
		t.Fatalf("%v: run tools/torch-root.sh", err)
	}
	return dir
}

// Entered returns the command that runs argv with devices and processes in the root and, at /srv,
// the directory work.
func Entered(root, work string, argv ...string) []string {
	return append([]string{"unshare", "-m", "sh", "-c", enter, "sh", root, work}, argv...)
}

// Python returns the command that runs a script of /srv in the root.
func Python(root string, env []string, script string, args ...string) []string {
	argv := append([]string{"chroot", root, "/usr/bin/env", "-i", "PATH=/usr/bin", "HOME=/tmp"}, env...)
	return append(append(argv, "python3", "/srv/"+script), args...)
}
