package guests

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

// Kernel is a kernel for a guest.
type Kernel struct {
	Name string // name of its directory, such as "6.1"
	Arch string // Go's name of the architecture
	// Package is the Debian package that depends on the newest build, if URL is empty.
	Package string
	// URL is a package from elsewhere, with a known hash.
	URL, SHA256 string
}

// The kernels. Debian's are the newest of Debian 12; the others are those of their systems' first
// releases.
var (
	Kernel515      = Kernel{Name: "5.15", Arch: "amd64", URL: ubuntu + "linux-image-5.15.0-25-generic_5.15.0-25.25_amd64.deb", SHA256: "ad56f8c442a54d4f5ff2dff010d00321d53e32b543f3a92f3ba4e042d20a71da"} // Ubuntu 22.04
	Kernel61       = Kernel{Name: "6.1", Arch: "amd64", Package: "linux-image-cloud-amd64"}
	Kernel68       = Kernel{Name: "6.8", Arch: "amd64", URL: ubuntu + "linux-image-6.8.0-31-generic_6.8.0-31.31_amd64.deb", SHA256: "fd2ed023c84163e62c73d3b7b613a9b004bd31e335641c23d42bd249e489fbe6"} // Ubuntu 24.04
	Kernel612      = Kernel{Name: "6.12", Arch: "amd64", Package: "linux-image-6.12-cloud-amd64"}
	Kernel61arm64  = Kernel{Name: "6.1-arm64", Arch: "arm64", Package: "linux-image-cloud-arm64"}
	Kernel612arm64 = Kernel{Name: "6.12-arm64", Arch: "arm64", Package: "linux-image-6.12-cloud-arm64"}
)

const ubuntu = "http://archive.ubuntu.com/ubuntu/pool/main/l/linux-signed/"

// keptMu guards the directories of the downloaded kernels, which parallel tests share.
var keptMu sync.Mutex

// copyImage copies the kernel's image to a file, after downloading it into dir if necessary.
func (k Kernel) copyImage(dir, to string) error {
	keptMu.Lock()
	defer keptMu.Unlock()
	image, err := k.image(dir)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(image)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o600)
}

// image returns the path of the kernel's image, after downloading it into dir if necessary. The
// caller holds keptMu.
func (k Kernel) image(dir string) (string, error) {
	dir = filepath.Join(dir, k.Name)
	if found, _ := filepath.Glob(filepath.Join(dir, "vmlinuz-*")); len(found) > 0 {
		return found[0], nil
	}
	tmp, err := os.MkdirTemp("", "kernel")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	if err := os.Chmod(tmp, 0o755); err != nil { // apt downloads as another user
		return "", err
	}
	if err := k.unpack(tmp); err != nil {
		return "", err
	}
	images, _ := filepath.Glob(filepath.Join(tmp, "tree/boot/vmlinuz-*"))
	if len(images) != 1 {
		return "", fmt.Errorf("%s holds %d kernels", k.Name, len(images))
	}
	return keep(images[0], dir)
}

// unpack unpacks the kernel's package into tree in a directory.
func (k Kernel) unpack(dir string) error {
	deb := filepath.Join(dir, "kernel.deb")
	if k.URL != "" {
		if err := download(k.URL, k.SHA256, deb); err != nil {
			return err
		}
		_, err := command(dir, "dpkg", "-x", deb, "tree")
		return err
	}
	a, err := aptOf(k.Arch, k.Package, dir)
	if err != nil {
		return err
	}
	name, err := a.build(k.Package)
	if err != nil {
		return err
	}
	return a.unpack(name)
}

// download downloads a file with a known hash.
func download(url, sum, path string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 256<<20))
	if err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s, %w", url, resp.Status, err)
	}
	if got := sha256.Sum256(b); hex.EncodeToString(got[:]) != sum {
		return fmt.Errorf("%s: its SHA-256 is %x, not %s", url, got, sum)
	}
	return os.WriteFile(path, b, 0o644)
}

// apt is the system's apt for packages of one architecture, in a directory.
type apt struct {
	dir  string
	args []string
}

// sources are Debian's sources of kernels, some of which are only in its security updates. The
// machine may not have these sources.
const sources = `deb http://deb.debian.org/debian bookworm main
deb http://deb.debian.org/debian-security bookworm-security main
`

// aptOf returns an apt with this machine's package lists, if they are of the architecture and have
// the named kernel package, if any. Otherwise it downloads lists of its own.
func aptOf(arch, name, dir string) (*apt, error) {
	a := &apt{dir: dir}
	if own, err := command("", "dpkg", "--print-architecture"); err == nil && strings.TrimSpace(string(own)) == arch {
		if name == "" {
			return a, nil
		}
		if out, err := a.run("apt-cache", "depends", name); err == nil && dependsOn.Match(out) {
			return a, nil
		}
	}
	state := filepath.Join(dir, "apt")
	for _, d := range []string{"state/lists/partial", "cache/archives/partial", "sources"} {
		if err := os.MkdirAll(filepath.Join(state, d), 0o755); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(filepath.Join(state, "sources/debian.list"), []byte(sources), 0o644); err != nil {
		return nil, err
	}
	a.args = []string{"-o", "APT::Architecture=" + arch, "-o", "APT::Architectures::=" + arch,
		"-o", "Dir::Etc::sourceparts=" + state + "/sources",
		"-o", "Dir::State=" + state + "/state", "-o", "Dir::State::status=/dev/null", "-o", "Dir::Cache=" + state + "/cache"}
	_, err := a.run("apt-get", "update", "-q")
	return a, err
}

func (a *apt) run(name string, args ...string) ([]byte, error) {
	return command(a.dir, name, append(append([]string{}, a.args...), args...)...)
}

var dependsOn = regexp.MustCompile(`Depends: (linux-image-\S+)`)

// build resolves a package to the package that contains the kernel.
func (a *apt) build(name string) (string, error) {
	out, err := a.run("apt-cache", "depends", name)
	if err != nil {
		return "", err
	}
	m := dependsOn.FindSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("apt-cache depends %s names no kernel:\n%s", name, out)
	}
	return string(m[1]), nil
}

// unpack downloads packages and unpacks them into tree.
func (a *apt) unpack(names ...string) error {
	if _, err := a.run("apt-get", append([]string{"download", "-q"}, names...)...); err != nil {
		return err
	}
	debs, _ := filepath.Glob(filepath.Join(a.dir, "*.deb"))
	if len(debs) != len(names) {
		return fmt.Errorf("apt-get download %v left %d files", names, len(debs))
	}
	for _, deb := range debs {
		if _, err := command(a.dir, "dpkg", "-x", deb, "tree"); err != nil {
			return err
		}
	}
	return nil
}

// keep copies a file into dir under its own name, atomically.
func keep(path, dir string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if text, err = plain(text); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	f, err := os.CreateTemp(dir, "part-")
	if err != nil {
		return "", err
	}
	_, err = f.Write(text)
	kept := filepath.Join(dir, filepath.Base(path))
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err == nil {
		err = os.Rename(f.Name(), kept)
	}
	if err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return kept, nil
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
