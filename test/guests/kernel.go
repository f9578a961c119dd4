package guests

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
)

// Kernel names one of Debian's kernels by the package that depends on the
// newest build of it.
type Kernel string

// The kernels, all from Debian 12.
const (
	Kernel61  Kernel = "linux-image-cloud-amd64"      // 6.1
	Kernel612 Kernel = "linux-image-6.12-cloud-amd64" // 6.12
)

// image returns the path of the kernel's image, which it has apt download into
// dir unless that holds one.
func (k Kernel) image(dir string) (string, error) {
	dir = filepath.Join(dir, string(k))
	if found, _ := filepath.Glob(filepath.Join(dir, "vmlinuz-*")); len(found) > 0 {
		return found[0], nil
	}
	name, err := k.build()
	if err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp("", "kernel")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	if err := os.Chmod(tmp, 0o755); err != nil { // apt downloads as a user of its own
		return "", err
	}
	if _, err := command(tmp, "apt-get", "download", "-q", name); err != nil {
		return "", err
	}
	debs, _ := filepath.Glob(filepath.Join(tmp, "*.deb"))
	if len(debs) != 1 {
		return "", fmt.Errorf("apt-get download %s left %d files", name, len(debs))
	}
	if _, err := command(tmp, "dpkg", "-x", debs[0], "tree"); err != nil {
		return "", err
	}
	images, _ := filepath.Glob(filepath.Join(tmp, "tree/boot/vmlinuz-*"))
	if len(images) != 1 {
		return "", fmt.Errorf("%s holds %d kernels", name, len(images))
	}
	return keep(images[0], dir)
}

var dependsOn = regexp.MustCompile(`Depends: (linux-image-\S+)`)

// build resolves the package to the one that holds the kernel.
func (k Kernel) build() (string, error) {
	out, err := command("", "apt-cache", "depends", string(k))
	if err != nil || !dependsOn.Match(out) {
		// The lists of packages are missing or old.
		if _, err := command("", "apt-get", "update", "-q"); err != nil {
			return "", err
		}
		if out, err = command("", "apt-cache", "depends", string(k)); err != nil {
			return "", err
		}
	}
	m := dependsOn.FindSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("apt-cache depends %s names no kernel:\n%s", k, out)
	}
	return string(m[1]), nil
}

// keep copies a file into dir under its own name, whole or not at all.
func keep(path, dir string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	kept := filepath.Join(dir, filepath.Base(path))
	if err := os.WriteFile(kept+".part", text, 0o644); err != nil {
		return "", err
	}
	return kept, os.Rename(kept+".part", kept)
}

func command(dir, name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("%s: %w\n%s", cmd, err, stderr.Bytes())
	}
	return out, nil
}
