package guests

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"ingero/internal/testkit"
)

// Module builds the module of test/guests/module for a kernel and returns its path. The build
// packages are downloaded, beside the kernel, and not installed.
func Module(t testing.TB, k Kernel) string {
	t.Helper()
	testkit.NeedTool(t, "apt-get", "dpkg", "make", "gcc")
	root, err := testkit.Repository()
	if err != nil {
		t.Fatal(err)
	}
	headers, err := k.headers(filepath.Join(root, "bin", "kernels"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, "test/guests/module"))); err != nil {
		t.Fatal(err)
	}
	// Without the module's BTF, which would need the kernel's.
	if _, err := command(dir, "make", "-s", "-C", headers, "M="+dir, "CONFIG_DEBUG_INFO_BTF_MODULES=", "modules"); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "xid.ko")
}

// headers returns the directory for building modules for the kernel in dir. If Debian no longer has
// the headers of that build, headers replaces the kernel by the newest build.
func (k Kernel) headers(dir string) (string, error) {
	keptMu.Lock()
	defer keptMu.Unlock()
	image, err := k.image(dir)
	if err != nil {
		return "", err
	}
	headers, err := headersOf(image)
	if err == nil {
		return headers, nil
	}
	if removed := os.RemoveAll(filepath.Dir(image)); removed != nil {
		return "", errors.Join(err, removed)
	}
	if image, err = k.image(dir); err != nil {
		return "", err
	}
	return headersOf(image)
}

// headersOf returns the directory for building modules for a kernel, which lies beside its image.
func headersOf(image string) (string, error) {
	release := strings.TrimPrefix(filepath.Base(image), "vmlinuz-")
	tree := filepath.Join(filepath.Dir(image), "headers-"+release)
	build := filepath.Join(tree, "usr/src/linux-headers-"+release)
	if _, err := os.Stat(build); err == nil {
		return build, nil
	}
	out, err := command("", "apt-cache", "depends", "linux-headers-"+release)
	if err != nil {
		return "", err
	}
	packages := []string{"linux-headers-" + release}
	for _, m := range regexp.MustCompile(`Depends: (linux-headers-\S+|linux-kbuild-\S+)`).FindAllStringSubmatch(string(out), -1) {
		packages = append(packages, m[1])
	}
	tmp, err := os.MkdirTemp(filepath.Dir(image), "headers")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	if err := os.Chmod(tmp, 0o755); err != nil { // apt downloads as another user
		return "", err
	}
	if err := (&apt{dir: tmp}).unpack(packages...); err != nil {
		return "", err
	}
	// The headers' Makefile expects absolute paths.
	makefile := filepath.Join(tmp, "tree/usr/src/linux-headers-"+release, "Makefile")
	text, err := os.ReadFile(makefile)
	if err != nil {
		return "", err
	}
	there := strings.ReplaceAll(string(text), "/usr/src/", tree+"/usr/src/")
	if err := os.WriteFile(makefile, []byte(there), 0o644); err != nil {
		return "", err
	}
	return build, os.Rename(filepath.Join(tmp, "tree"), tree)
}
