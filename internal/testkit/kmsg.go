package testkit

import (
	"os"
	"syscall"
	"testing"
)

// KernelLog locks the kernel's log for this test, which needs root. All processes of the machine
// share the log, and it is small. Tests that write or read a few lines share the lock. A test that
// fills the log sets alone, so that no other test loses lines.
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
