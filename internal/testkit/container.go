package testkit

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// containerEnv makes the test binary the first process of a container: its root.
const containerEnv = "INGERO_TEST_CONTAINER"

// ContainerMain must be called first in TestMain where Container is used. In a process of Container
// it becomes the program, and does not return.
func ContainerMain() {
	if root := os.Getenv(containerEnv); root != "" {
		fmt.Fprintln(os.Stderr, "container:", enterContainer(root, os.Args[1:]))
		os.Exit(1)
	}
}

// Container returns a command that runs a program in mount, PID, IPC and UTS namespaces of its own,
// with a root directory of its own. It needs root.
func Container(t testing.TB, root string, argv ...string) *exec.Cmd {
	t.Helper()
	NeedRoot(t)
	cmd := exec.Command("/proc/self/exe", argv...)
	cmd.Env = []string{containerEnv + "=" + root, "HOME=/"}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS}
	return cmd
}

// enterContainer changes the root and executes the program. It returns only errors.
func enterContainer(root string, argv []string) error {
	const old = "/.old"
	steps := []struct {
		what string
		do   func() error
	}{
		{"make mounts private", func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") }},
		{"bind the root", func() error { return unix.Mount(root, root, "", unix.MS_BIND|unix.MS_REC, "") }},
		{"mount proc", func() error { return unix.Mount("proc", root+"/proc", "proc", 0, "") }},
		{"pivot_root", func() error { return unix.PivotRoot(root, root+old) }},
		{"chdir", func() error { return unix.Chdir("/") }},
		{"unmount the old root", func() error { return unix.Unmount(old, unix.MNT_DETACH) }},
		{"sethostname", func() error { return unix.Sethostname([]byte("container")) }},
		{"exec", func() error { return unix.Exec(argv[0], argv, []string{"HOME=/"}) }},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
	}
	return errors.New("exec came back")
}

// ContainerRoot fills a directory with files, by their paths in it, and with the loader and
// libraries of the programs among them.
func ContainerRoot(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for _, d := range []string{"proc", ".old", "tmp"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for to, from := range files {
		copyWithNeeds(t, dir, to, from)
	}
}

func copyWithNeeds(t testing.TB, root, to, from string) {
	t.Helper()
	dest := filepath.Join(root, to)
	if _, err := os.Stat(dest); err == nil {
		return
	}
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(dest), 0o755)
	}
	if err == nil {
		err = os.WriteFile(dest, b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(from)
	if err != nil {
		return // a script, or data
	}
	defer func() { _ = f.Close() }()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			name := make([]byte, p.Filesz)
			if _, err := p.ReadAt(name, 0); err != nil {
				t.Fatal(err)
			}
			loader := strings.TrimRight(string(name), "\x00")
			copyWithNeeds(t, root, loader, loader)
		}
	}
	needs, _ := f.ImportedLibraries()
	for _, lib := range needs {
		for _, dir := range []string{"/lib64", "/usr/lib64", "/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib"} {
			if _, err := os.Stat(filepath.Join(dir, lib)); err == nil {
				copyWithNeeds(t, root, filepath.Join("/lib", lib), filepath.Join(dir, lib))
				break
			}
		}
	}
}
