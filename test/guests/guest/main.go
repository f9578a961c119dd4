// Command guest is the only program of an emulated machine: it mounts what tracing needs, runs the
// smoke test and turns the machine off. It does nothing unless it is process 1.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

func main() {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "guest: this is the /init of a test machine and runs only there")
		os.Exit(2)
	}
	if err := guest(); err != nil {
		var verifier fmt.Formatter
		if errors.As(err, &verifier) { // the error has the verifier's last lines; %+v prints all of them
			fmt.Printf("%+v\n", verifier)
		}
		fmt.Printf("\nGUEST FAIL %v\n", err)
	} else {
		fmt.Print("\nGUEST PASS\n")
	}
	unix.Sync()
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF); err != nil {
		fmt.Printf("GUEST FAIL power off: %v\n", err)
	}
}

func guest() error {
	for _, m := range [][2]string{
		{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/tmp"},
		{"tracefs", "/sys/kernel/tracing"}, {"debugfs", "/sys/kernel/debug"}, {"bpf", "/sys/fs/bpf"},
	} {
		if err := unix.Mount(m[0], m[1], m[0], 0, ""); err != nil && !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("mount %s at %s: %w", m[0], m[1], err)
		}
	}
	version, err := os.ReadFile("/proc/version")
	if err != nil {
		return err
	}
	fmt.Printf("\n%s", version)
	// In "none voluntary (full)" the mode in parentheses is active.
	if preempt, err := os.ReadFile("/sys/kernel/debug/sched/preempt"); err == nil {
		_, rest, _ := strings.Cut(string(preempt), "(")
		in, _, _ := strings.Cut(rest, ")")
		fmt.Printf("preempt %s\n", in)
	}
	if _, err := os.Stat("/sys/kernel/btf/vmlinux"); err != nil {
		return err
	}
	if _, err := os.Stat(programPath); err == nil {
		return product()
	}
	err = smoke()
	if _, absent := os.Stat(modulePath); absent == nil {
		err = errors.Join(err, faults())
	}
	return err
}
