package gpu

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

const smiName = "nvidia-smi"

// tool is the location of nvidia-smi.
type tool struct {
	root string // its root directory; "": this one
	path string // below root
	libs string // directory of its library, if the loader lacks it
}

// tools lists the places of installation, in addition to PATH.
var tools = []tool{
	{path: "/usr/bin/" + smiName},
	{path: "/usr/local/nvidia/bin/" + smiName, libs: "/usr/local/nvidia/lib64"}, // Kubernetes device plug-ins
	{path: "/usr/lib/wsl/lib/" + smiName, libs: "/usr/lib/wsl/lib"},
	{path: "/opt/bin/" + smiName},
	{path: "/run/current-system/sw/bin/" + smiName}, // NixOS
}

// roots lists other file systems to search: the driver container of NVIDIA's GPU operator, and the
// host.
var roots = []string{"/run/nvidia/driver", "/proc/1/root"}

// ErrUntrusted reports that another user can write nvidia-smi.
var ErrUntrusted = errors.New("other users can write it")

// find looks for nvidia-smi; nil: not found. It skips files that others can write, since the agent
// may run as root. If there is nothing else, the error names the file.
func (m Machine) find() (*tool, error) {
	search := m.Path
	if search == "" {
		search = os.Getenv("PATH")
	}
	var places []tool
	for _, dir := range filepath.SplitList(search) {
		if filepath.IsAbs(dir) {
			places = append(places, tool{path: filepath.Join(dir, smiName)})
		}
	}
	places = append(places, tools...)
	for _, root := range roots {
		for _, t := range tools {
			t.root = root
			places = append(places, t)
		}
	}
	var refused error
	for _, t := range places {
		err := m.trusted(&t)
		if err == nil {
			if t.root == "" {
				t.path = m.Root + t.path
			} else {
				t.root = m.Root + t.root
			}
			return &t, nil
		}
		if errors.Is(err, ErrUntrusted) && refused == nil {
			refused = err
		}
	}
	return nil, refused
}

// trusted checks that a place has the program, and that only root and the agent's own user can
// change it or its parent directories. Links are followed, each below root.
func (m Machine) trusted(t *tool) error {
	base := m.Root + t.root
	real, err := within(base, t.path)
	if err != nil {
		return err
	}
	for path := real; ; path = filepath.Dir(path) {
		info, err := os.Lstat(base + path)
		if err != nil {
			return err
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok || st.Uid != 0 && st.Uid != uint32(os.Geteuid()) || info.Mode().Perm()&0o022 != 0 && info.Mode()&fs.ModeSticky == 0 {
			return fmt.Errorf("%s is not used: %w (%s)", base+real, ErrUntrusted, base+path)
		}
		if path == real && (!info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0) {
			return fmt.Errorf("%s: %w", base+path, fs.ErrNotExist)
		}
		if path == "/" {
			return nil
		}
	}
}

// maxLinks bounds the links in a path, as in the kernel.
const maxLinks = 40

// within follows the links of path for a process whose root is base.
func within(base, path string) (string, error) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	at := "/"
	for links := 0; len(parts) > 0; {
		next := filepath.Join(at, parts[0])
		parts = parts[1:]
		info, err := os.Lstat(base + next)
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("%s: %w", base+path, syscall.ELOOP)
		}
		to, err := os.Readlink(base + next)
		if err != nil {
			return "", err
		}
		if filepath.IsAbs(to) {
			at = "/"
		}
		parts = append(slices.DeleteFunc(strings.Split(to, "/"), func(s string) bool { return s == "" || s == "." }), parts...)
	}
	return at, nil
}

// prepare makes the program run without the agent's environment, at its root.
func (t *tool) prepare(cmd *exec.Cmd) {
	cmd.Env = []string{"LC_ALL=C", "PATH=/usr/bin:/bin"}
	if t.libs != "" {
		cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+t.libs)
	}
	cmd.Dir = "/"
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Chroot = t.root
}
