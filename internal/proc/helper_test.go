package proc

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ingero/internal/testkit"
)

// helperEnv makes the test binary a helper process.
const helperEnv = "INGERO_PROC_HELPER"

func TestMain(m *testing.M) {
	testkit.ContainerMain()
	if os.Getenv(helperEnv) != "" {
		if err := help(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// help executes commands from lines of standard input, and answers each with "ok" and a result.
func help() error {
	fmt.Println("ok")
	for s := bufio.NewScanner(os.Stdin); s.Scan(); {
		verb, arg, _ := strings.Cut(s.Text(), " ")
		answer, err := obey(verb, arg)
		if err != nil {
			return fmt.Errorf("%s %s: %w", verb, arg, err)
		}
		fmt.Println("ok", answer)
	}
	return nil
}

func obey(verb, arg string) (answer any, err error) {
	obeyed()
	switch verb {
	case "map": // an executable mapping of a file
		return mapFile(arg, unix.PROT_READ|unix.PROT_EXEC, 1)
	case "read": // a non-executable mapping
		return mapFile(arg, unix.PROT_READ, 1)
	case "storm": // many mappings, each unmapped at once
		return mapFile(arg, unix.PROT_READ|unix.PROT_EXEC, 20_000)
	case "memfd": // a copy of a file without a name in any file system
		return mapMemfd(arg)
	case "chroot":
		return "", unix.Chroot(arg)
	case "setuid":
		uid, err := strconv.Atoi(arg)
		if err != nil {
			return nil, err
		}
		return "", unix.Setuid(uid)
	case "hostpids":
		if arg != "" { // the proc file system of a new PID namespace
			if err := unix.Mount("proc", arg, "proc", 0, ""); err != nil {
				return nil, err
			}
			defer unix.Unmount(arg, 0)
		}
		return FS{Root: arg}.HostPIDs()
	}
	return nil, fmt.Errorf("what is %q?", verb)
}

// obeyed is called once for each command, and TestProbeByPath probes it. A Go function that can
// grow its stack begins again when it has grown, and when the scheduler preempts it at its entry:
// a probe would count such a call twice.
//
//go:noinline
//go:nosplit
func obeyed() {}

func mapFile(path string, prot, times int) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	for i := range times {
		mem, err := unix.Mmap(int(f.Fd()), 0, os.Getpagesize(), prot, unix.MAP_PRIVATE)
		if err != nil {
			return "", err
		}
		if i > 0 {
			if err := unix.Munmap(mem); err != nil {
				return "", err
			}
		}
	}
	return fmt.Sprint(unix.Gettid()), nil
}

func mapMemfd(path string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	fd, err := unix.MemfdCreate(filepath.Base(path), unix.MFD_CLOEXEC)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, content); err != nil {
		return "", err
	}
	return mapFile(fmt.Sprintf("/proc/self/fd/%d", fd), unix.PROT_READ|unix.PROT_EXEC, 1)
}

type helper struct {
	*testkit.Child
	pid uint32
}

// startHelper runs the test binary as a helper. change may alter its command.
func startHelper(t testing.TB, change func(*exec.Cmd)) helper {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), helperEnv+"=1")
	if change != nil {
		change(cmd)
	}
	h := helper{Child: testkit.Start(t, cmd)}
	h.pid = uint32(h.PID())
	h.Line("ok")
	return h
}

// do sends a command to the helper and returns its answer.
func (h helper) do(line string) string {
	h.Send(line)
	return strings.TrimSpace(strings.TrimPrefix(h.Line("ok"), "ok"))
}

// elfFile writes a file that passes for a library. Its build id and content derive from the letter.
func elfFile(t testing.TB, path string, letter byte) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, testkit.ELF(letter), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// only returns the one library that a process maps.
func only(t testing.TB, pid uint32) Library {
	t.Helper()
	libs, err := FS{}.Libraries(pid, Names{})
	if err != nil {
		t.Fatal(err)
	}
	if len(libs) != 1 {
		t.Fatalf("Libraries = %+v, want one", libs)
	}
	return libs[0]
}
