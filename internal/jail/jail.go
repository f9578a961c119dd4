// Package jail runs a copy of a program that can compute and print its results, and do next to
// nothing else.
//
// The program runs as another user, and sees only the files below one directory. It has no
// capabilities and cannot gain any, no network, no view of other processes to signal, and only the
// given environment. It can start threads, but no processes. It is killed when its time is over. It
// is executed from a copy in memory, so neither the file's mode bits nor later writes to the file
// matter.
package jail

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Program is a program to run.
type Program struct {
	Image *os.File // the executable, which is copied
	Root  *os.File // the directory that it sees as /
	UID   uint32
	GID   uint32
	Args  []string // the first is its own name
	Env   []string
	Time  time.Duration // it is then killed
}

// maxImage bounds a program, in bytes.
const maxImage = 256 << 20

// Jailed is a running program.
type Jailed struct {
	PID    int
	cmd    *exec.Cmd
	cancel context.CancelFunc
	lines  *bufio.Scanner
	words  *tail
}

// name tells Enter that a process is to become a jailed program.
const name = "ingero-jail"

// order is what Enter needs to know.
type order struct {
	UID, GID uint32
	Args     []string
	Env      []string
	Seconds  uint64
}

// Inherited files, after the standard three.
const (
	rootFD  = 3
	imageFD = 4
)

// Start runs a program. The calling process must be root, and must call Enter before anything else.
// The program runs until End, or until its time is over.
func Start(p *Program) (*Jailed, error) {
	image, err := copyOf(p.Image)
	if err != nil {
		return nil, fmt.Errorf("copy a program: %w", err)
	}
	defer image.Close()
	text, err := json.Marshal(order{p.UID, p.GID, p.Args, p.Env, uint64((p.Time + time.Second - 1) / time.Second)})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.Time)
	j := &Jailed{cmd: exec.CommandContext(ctx, "/proc/self/exe"), cancel: cancel, words: &tail{}}
	j.cmd.Args = []string{name, string(text)}
	j.cmd.Env = []string{}
	j.cmd.ExtraFiles = []*os.File{rootFD - 3: p.Root, imageFD - 3: image}
	j.cmd.Stderr = j.words
	j.cmd.WaitDelay = time.Second
	j.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true,
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWNS}
	out, err := j.cmd.StdoutPipe()
	if err != nil {
		cancel()
		return nil, err
	}
	if err := j.cmd.Start(); err != nil {
		cancel()
		return nil, fmt.Errorf("run a program in a jail: %w", err)
	}
	j.PID = j.cmd.Process.Pid
	j.lines = bufio.NewScanner(io.LimitReader(out, 1<<20))
	return j, nil
}

// Line returns the next line of output, io.EOF at its end.
func (j *Jailed) Line() (string, error) {
	if !j.lines.Scan() {
		return "", errors.Join(io.EOF, j.lines.Err())
	}
	return j.lines.Text(), nil
}

// End kills the program, and returns the end of its standard error.
func (j *Jailed) End() string {
	j.cancel()
	_ = j.cmd.Wait() // killed
	return string(j.words.b)
}

// tail keeps the end of what is written.
type tail struct{ b []byte }

func (t *tail) Write(b []byte) (int, error) {
	const most = 1024
	t.b = append(t.b, b...)
	t.b = t.b[max(len(t.b)-most, 0):]
	return len(b), nil
}

// IsImage reports whether a path, as the kernel shows it for a mapping, is that of a copy.
func IsImage(path string) bool { return strings.HasPrefix(path, "/memfd:"+imageName) }

const imageName = "ingero-copy"

// copyOf returns a sealed copy of a file in memory, without setuid bits.
func copyOf(f *os.File) (*os.File, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate(imageName, flags|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3 all are executable
		fd, err = unix.MemfdCreate(imageName, flags)
	}
	if err != nil {
		return nil, err
	}
	image := os.NewFile(uintptr(fd), imageName)
	n, err := io.Copy(image, io.NewSectionReader(f, 0, maxImage+1))
	if err == nil && n > maxImage {
		err = fmt.Errorf("it is larger than %d MB", maxImage>>20)
	}
	if err == nil {
		_, err = unix.FcntlInt(image.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	if err != nil {
		return nil, errors.Join(err, image.Close())
	}
	return image, nil
}
