package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"ingero/internal/cli/check"
	"ingero/internal/proc"
	"ingero/internal/wire"
)

func checkCommand(e *Env) *cobra.Command {
	asJSON, pid, support := false, uint32(0), ""
	c := &cobra.Command{
		Use:   "check",
		Short: "Check whether ingero can trace on this machine, and what each missing feature costs",
		Long: `check inspects the kernel, the GPU driver, the CUDA libraries and the processes that use
them. As root, it also tests each kernel feature that ingero can use.

With --pid, check inspects one process: the CUDA libraries it has loaded, which of their
functions are traced, a runtime linked into the program, and whether calls can be timed.
check attaches nothing to the process.

--support-bundle writes a file for a support request: the output of check, versions,
settings without secrets, the state of the trace and the database, and the last lines of
the service's log. check lists the content of the file and sends nothing.

check exits with code 1 if ingero cannot trace here, else with 0.`,
		Example: "  sudo ingero check\n  ingero check | grep ptrace_scope\n  sudo ingero check --json\n  sudo ingero check --pid 4821\n  sudo ingero check --support-bundle support.tar.gz",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if support != "" {
				return e.supportBundle(c.Context(), support)
			}
			r, err := e.check(c.Context(), pid)
			if err != nil {
				return err
			}
			if asJSON {
				if err := e.json(r); err != nil {
					return err
				}
			} else if err := e.printf("%s", check.Text(&r)); err != nil {
				return err
			}
			if !r.Ready {
				return exitCode(exitFailed)
			}
			return nil
		},
	}
	c.Flags().Uint32VarP(&pid, "pid", "p", 0, "check only this process")
	c.Flags().StringVar(&support, "support-bundle", "", "tar.gz file to write for a support request")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// check inspects the machine, or one process if pid is not 0.
func (e *Env) check(ctx context.Context, pid uint32) (wire.Check, error) {
	m := check.Machine{Lock: e.Lock}
	if pid == 0 {
		return check.Run(ctx, m), nil
	}
	if p, err := (proc.FS{}).Process(pid); err == nil && p.ThreadOf != 0 {
		return wire.Check{}, threadProblem(&p, "check")
	}
	r, err := check.Process(ctx, m, proc.Names{}, pid)
	if errors.Is(err, proc.ErrExited) {
		return r, &problem{What: fmt.Sprintf("no such process: %d", pid), Do: "ingero check lists the processes that use CUDA", Err: err}
	}
	return r, err
}
