package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"

	"ingero/internal/probes"
	"ingero/internal/proc"
	"ingero/sim"
)

// peek reads a process's memory after user space was forbidden to, until the machine is turned
// off.
func peek(stack sim.Stack) error {
	if err := os.WriteFile("/proc/sys/kernel/yama/ptrace_scope", []byte("3"), 0); err != nil {
		return err
	}
	cmd := exec.Command(stack.Program("calls"), "--start-on-stdin", "cudaLaunchKernel", "1")
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if _, err := out.Read(make([]byte, 1)); err != nil { // wait until it is ready
		return err
	}
	err = peekAt(uint32(cmd.Process.Pid))
	if _, e := io.WriteString(in, "\n"); e != nil {
		return errors.Join(err, e)
	}
	_, e := io.Copy(io.Discard, out)
	return errors.Join(err, e, cmd.Wait())
}

func peekAt(pid uint32) error {
	if _, err := (proc.FS{}).Memory(pid, time.Now()); !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("its memory can be opened: %v", err)
	}
	if _, err := proc.VM(pid).ReadAt(make([]byte, 1), 0); !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("its memory can be read: %v", err)
	}
	p, err := probes.OpenPeeker()
	switch old, oerr := before(5, 18); {
	case oerr != nil:
		return oerr
	case old && err == nil:
		return errors.Join(errors.New("a kernel before 5.18 reads the memory of others"), p.Close())
	case old:
		fmt.Println("the kernel does not help to read the memory of others")
		return nil
	case err != nil:
		return err
	}
	defer p.Close()
	maps, err := proc.FS{}.Maps(pid, false)
	if err != nil || len(maps) == 0 || maps[0].Offset != 0 {
		return fmt.Errorf("maps: %v, %w", maps, err)
	}
	magic := make([]byte, 4)
	if _, err := p.Process(pid).ReadAt(magic, int64(maps[0].Start)); err != nil || string(magic) != "\x7fELF" {
		return fmt.Errorf("%s begins with %q, %w", maps[0].Path, magic, err)
	}
	fmt.Printf("read %s with the kernel's help\n", maps[0].Path)
	return nil
}

// before reports whether the kernel is older than a version.
func before(major, minor int) (bool, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return false, err
	}
	var a, b int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &a, &b); err != nil {
		return false, err
	}
	return a < major || a == major && b < minor, nil
}
