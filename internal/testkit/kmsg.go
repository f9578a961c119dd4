package testkit

import (
	"os"
	"syscall"
	"testing"
)

// KernelLog keeps the kernel's log for this test, which needs root. All processes of the
// machine share the log, and it is small. Tests that only write or read a few lines share
// it. One that fills it has it alone, so that no other test loses lines.
func KernelLog(t testing.TB, alone bool) {
	t.Helper()
	NeedRoot(t)
	f, err := os.OpenFile("/dev/kmsg", os.O_WRONLY, 0)
	if err != nil {
		lack(t, "a kernel log that can be written: "+err.Error())
	}
	t.Cleanup(func() { _ = f.Close() })
	how := syscall.LOCK_SH
	if alone {
		how = syscall.LOCK_EX
	}
	for {
		if err = syscall.Flock(int(f.Fd()), how); err != syscall.EINTR {
			break
		}
	}
	if err != nil {
		t.Fatalf("lock /dev/kmsg: %v", err)
	}
}
