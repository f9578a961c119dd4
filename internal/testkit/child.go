package testkit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Child is a program that a test runs. It has a process group of its own, which is killed when the
// test or the test process ends, in whatever way.
type Child struct {
	t     testing.TB
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines chan string
	read  chan struct{} // closed at the end of standard output
	ended chan struct{} // closed after err is set
	err   error

	mu     sync.Mutex
	stdout []string
	stderr bytes.Buffer
}

// Start runs cmd for the length of the test. It uses cmd's stdin and stdout, and its stderr unless
// that is set, and logs the output if the test fails. When Start returns, the program has its name
// and command line, or has ended already.
func Start(t testing.TB, cmd *exec.Cmd) *Child {
	t.Helper()
	c := &Child{t: t, cmd: cmd, lines: make(chan string, 1<<16), read: make(chan struct{}), ended: make(chan struct{})}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = !cmd.SysProcAttr.Setsid // a session has a group of its own

	cmd.WaitDelay = patience / 4 // for a grandchild that holds standard error
	if cmd.Stderr == nil {
		cmd.Stderr = (*childStderr)(c)
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.stdin = stdin
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = in
	err = Launch(cmd)
	_ = in.Close()
	if err != nil {
		_ = out.Close()
		t.Fatal(err)
	}
	go c.readLines(out)
	go c.wait()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = stdin.Close()
		<-c.ended
		Disown(cmd)
		_ = out.Close() // a grandchild in another group may hold the other end
		<-c.read
		if t.Failed() {
			t.Logf("%s: %v\nstdout:\n%s\nstderr:\n%s", cmd, c.err, c.Stdout(), c.Stderr())
		}
	})
	// The kernel closes the pipe that os/exec waits for before the new program has its command
	// line.
	Eventually(t, cmd.String()+" to have its command line", func() bool {
		select {
		case <-c.ended:
			return true
		default:
			line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", cmd.Process.Pid))
			return err != nil || len(line) > 0
		}
	})
	return c
}

type childStderr Child

func (c *childStderr) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stderr.Write(p)
}

func (c *Child) readLines(out io.Reader) {
	defer close(c.read)
	defer close(c.lines)
	s := bufio.NewScanner(out)
	s.Buffer(nil, 16<<20) // a line of JSON of many processes
	for s.Scan() {
		c.mu.Lock()
		c.stdout = append(c.stdout, s.Text())
		c.mu.Unlock()
		select {
		case c.lines <- s.Text():
		default: // no reader of lines; Stdout has them all
		}
	}
}

func (c *Child) wait() {
	c.err = c.cmd.Wait()
	close(c.ended)
}

// PID returns the process's number.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Send writes a line to the child's standard input.
func (c *Child) Send(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.stdin, line+"\n"); err != nil {
		c.t.Fatalf("write to %s: %v", c.cmd, err)
	}
}

// CloseStdin closes the child's standard input.
func (c *Child) CloseStdin() { _ = c.stdin.Close() }

// Line returns the next line of standard output that starts with prefix, skipping others. It fails
// the test if none comes.
func (c *Child) Line(prefix string) string {
	c.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		select {
		case line, ok := <-c.lines:
			if !ok {
				c.t.Fatalf("%s ended without a line %q", c.cmd, prefix)
			}
			if strings.HasPrefix(line, prefix) {
				return line
			}
		case <-late.C:
			c.t.Fatalf("no line %q from %s after %v", prefix, c.cmd, patience)
		}
	}
}

// Stdout returns the standard output so far.
func (c *Child) Stdout() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(slices.Concat(c.stdout, []string{""}), "\n")
}

// Stderr returns the standard error so far, if Start captures it.
func (c *Child) Stderr() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stderr.String()
}

// Signal sends sig to the child only.
func (c *Child) Signal(sig syscall.Signal) {
	c.t.Helper()
	err := c.cmd.Process.Signal(sig)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		c.t.Fatalf("signal %s: %v", c.cmd, err)
	}
}

// Wait waits until the child and all that share its standard output have ended. It returns the
// result of [exec.Cmd.Wait].
func (c *Child) Wait() error {
	c.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for _, done := range []chan struct{}{c.ended, c.read} {
		select {
		case <-done:
		case <-late.C:
			c.t.Fatalf("%s still runs after %v", c.cmd, patience)
		}
	}
	return c.err
}
