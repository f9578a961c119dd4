package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"ingero/internal/config"
	"ingero/internal/label"
	"ingero/internal/proc"
)

// The default socket for labels: beside the lock, which allows one trace per machine.
const (
	labelAuto   = "auto"
	labelSocket = "ingero-labels.sock"
)

const annotateLong = `annotate tells the running trace what a process is doing now, by labels such as epoch=3 or
tenant=a. A label lasts until it is set again or cleared, or until the process ends. It also
holds for the children of the process that have no such label. The trace records labels with
their times. ingero query --label epoch=3 then selects the calls that began meanwhile, and
--by label:epoch groups by it.

A key has up to 32 of a-z, 0-9, _ and ., and begins with a letter. A value has up to 128
bytes. A process has up to 16 keys.

In a shell script, --pid $$ is the script itself. With a command, annotate labels itself and
then becomes that command. If no trace runs, it says so and starts the command nevertheless.

By default, only root and the user that traces may send labels. A trace with --label-senders
all accepts labels from all users for their own processes. Programs can also send labels
without this command: see docs/guides/labels.md.`

func annotateCommand(e *Env) *cobra.Command {
	var pid uint32
	var clear []string
	c := &cobra.Command{
		Use:   "annotate [--pid N] [--clear KEY] [KEY=VALUE...] [-- COMMAND [ARG...]]",
		Short: "Label what a process does: step, epoch, request, tenant",
		Long:  annotateLong,
		Example: `  ingero annotate --pid 4821 epoch=3
  ingero annotate --pid 4821 --clear request
  ingero annotate tenant=a job=nightly -- python3 train.py`,
		Args: cobra.ArbitraryArgs,
	}
	flags := config.Bind(c)
	c.Flags().Uint32VarP(&pid, "pid", "p", 0, "process to label")
	c.Flags().StringSliceVar(&clear, "clear", nil, "labels to end: request or request,tenant")
	c.RunE = func(c *cobra.Command, args []string) error {
		s, err := e.settings(flags)
		if err != nil {
			return err
		}
		var command []string
		if at := c.ArgsLenAtDash(); at >= 0 {
			args, command = args[:at], args[at:]
		}
		m := label.Message{PID: pid, Clear: clear, Set: map[string]string{}}
		for _, text := range args {
			key, value, ok := strings.Cut(text, "=")
			if !ok {
				return usage("ingero annotate --pid $$ epoch=3", "%q is not a label: write KEY=VALUE", text)
			}
			m.Set[key] = value
		}
		if err := m.Check(); err != nil {
			return usage("ingero annotate --pid $$ epoch=3", "annotate: %v", err)
		}
		if (pid != 0) == (len(command) > 0) {
			return usage("ingero annotate --pid $$ epoch=3, or ingero annotate epoch=3 -- COMMAND", "annotate requires either --pid or a command")
		}
		err = e.annotate(s, &m)
		if len(command) == 0 {
			return err
		}
		if err != nil {
			e.note("Note: not labelled: %v", err)
		}
		return becomes(command)
	}
	return c
}

// annotate sends a message to the running trace.
func (e *Env) annotate(c *config.Config, m *label.Message) error {
	if err := mayLabel(m.PID); err != nil {
		return err
	}
	var last error
	for _, path := range e.labelSockets(c.Trace.LabelSocket) {
		err := label.Send(path, m)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, fs.ErrPermission):
			return &problem{What: "this user may not send labels to the trace at " + path, Do: "run the trace with --label-senders all, or annotate as the user that traces"}
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ECONNREFUSED):
			last = fmt.Errorf("send labels to %s: %w", path, err)
		}
	}
	if last != nil {
		return last
	}
	return &problem{What: "no trace listens for labels", Do: "start one: sudo ingero trace"}
}

// labelSockets returns the paths at which the trace may listen.
func (e *Env) labelSockets(setting string) (out []string) {
	if setting != labelAuto {
		return []string{setting}
	}
	for _, dir := range e.Lock.Dirs {
		out = append(out, filepath.Join(dir, labelSocket))
	}
	if h, err := e.Lock.Holder(); err == nil && h != nil { // it may be in a container
		for _, dir := range e.Lock.Dirs {
			out = append(out, filepath.Join(fmt.Sprintf("/proc/%d/root", h.PID), dir, labelSocket))
		}
	}
	return out
}

// mayLabel returns an error if the trace will not accept a label of a process from this user: a
// datagram has no answer.
func mayLabel(pid uint32) error {
	if pid == 0 {
		return nil
	}
	st, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	if err != nil {
		return &problem{What: fmt.Sprintf("no such process: %d", pid), Do: "ingero check lists the processes that use CUDA"}
	}
	if p, err := (proc.FS{}).Process(pid); err == nil && p.ThreadOf != 0 {
		return threadProblem(&p, "annotate")
	}
	if uid := os.Geteuid(); uid != 0 && st.Sys().(*syscall.Stat_t).Uid != uint32(uid) {
		return &problem{What: fmt.Sprintf("process %d belongs to another user", pid), Do: "run ingero annotate as that user, or as root"}
	}
	return nil
}

// becomes replaces this process by a command.
func becomes(command []string) error {
	path, err := exec.LookPath(command[0])
	if err != nil {
		return err
	}
	return fmt.Errorf("start %s: %w", path, unix.Exec(path, command, os.Environ()))
}
