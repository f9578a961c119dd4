package testkit

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// launchEnv makes the test binary a test process that starts programs and is killed.
const launchEnv = "TESTKIT_TEST_LAUNCH"

func TestMain(m *testing.M) {
	if os.Getenv(launchEnv) != "" {
		launchAndWait()
	}
	os.Exit(m.Run())
}

// launchAndWait starts a program with a process group of its own, and one without, and waits to be
// killed.
func launchAndWait() {
	for _, own := range []bool{true, false} {
		cmd := exec.Command("sh", "-c", "sleep 1000 & echo pid $!; echo pid $$; wait")
		if !own {
			cmd = exec.Command("sh", "-c", "echo pid $$; exec sleep 1000")
		}
		cmd.Stdout, cmd.SysProcAttr = os.Stdout, &syscall.SysProcAttr{Setpgid: own}
		if err := Launch(cmd); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	for {
		_ = syscall.Pause() // not select: with all goroutines waiting, Go reports a deadlock
	}
}

// gone reports whether a process has ended.
func gone(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	return err != nil || strings.Contains(string(stat), ") Z ")
}

// When a test process is killed, the programs that it started end, and so do their children.
func TestLaunchedEndWithTheTestProcess(t *testing.T) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), launchEnv+"=1")
	c := Start(t, cmd)
	var pids []string
	for range 3 {
		pids = append(pids, strings.TrimPrefix(c.Line("pid "), "pid "))
	}
	for _, pid := range pids {
		if gone(pid) {
			t.Errorf("%s ended before the test process", pid)
		}
	}
	c.Signal(syscall.SIGKILL)
	for _, pid := range pids {
		Eventually(t, "the end of "+pid, func() bool { return gone(pid) })
	}
}

// A disowned group is not killed: its number may have been reused.
func TestDisownedGroupIsLeftAlone(t *testing.T) {
	other := Start(t, exec.Command("cat"))
	keep := Start(t, exec.Command("sh", "-c", keepGroups))
	group := strconv.Itoa(other.PID())
	none := fmt.Sprintf("9%08d", other.PID()) // larger than any process number
	for _, line := range []string{"+ " + none, "+ " + group, "- " + group} {
		keep.Send(line)
	}
	keep.CloseStdin()
	if err := keep.Wait(); err != nil && !strings.Contains(err.Error(), "exit status 1") {
		t.Fatal(err)
	}
	other.Send("alive")
	other.Line("alive")
}
