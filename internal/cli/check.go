package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"ingero/internal/cli/check"
	"ingero/internal/proc"
)

func checkCommand(e *Env) *cobra.Command {
	asJSON, pid, support := false, uint32(0), ""
	c := &cobra.Command{
		Use:   "check",
		Short: "Say whether this machine can be traced, and what each missing thing costs",
		Long: `check looks at the kernel, the GPU driver, the CUDA libraries and the processes
that use them. As root it also tries each feature of the kernel that ingero can use.

With --pid it looks at one process: which CUDA libraries it has loaded, what of them
is traced and what is not, a runtime that is linked into the program, and whether its
calls can be timed. Nothing is attached to it.

--support-bundle writes a file for whoever is to help: what check says, versions, settings
without secrets, what the trace and the database tell of themselves, the last lines of the
service's log. It lists what is in the file; nothing is sent.

It ends with 1 when tracing cannot work here, else with 0.`,
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
				enc := json.NewEncoder(e.Stdout)
				enc.SetIndent("", "  ")
				if err := enc.Encode(r); err != nil {
					return err
				}
			} else if err := e.printf("%s", r.Text()); err != nil {
				return err
			}
			if !r.Ready {
				return exitCode(exitFailed)
			}
			return nil
		},
	}
	c.Flags().Uint32VarP(&pid, "pid", "p", 0, "look at this process alone")
	c.Flags().StringVar(&support, "support-bundle", "", "write this file, a tar.gz, for whoever is to help")
	c.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	return c
}

// check looks at the machine, or at one process.
func (e *Env) check(ctx context.Context, pid uint32) (check.Report, error) {
	m := check.Machine{Lock: e.Lock}
	if pid == 0 {
		return check.Run(ctx, m), nil
	}
	r, err := check.Process(ctx, m, proc.Names{}, pid)
	if errors.Is(err, proc.ErrGone) {
		return r, &problem{What: fmt.Sprintf("there is no process %d", pid), Do: "ingero check lists the processes that use CUDA", Err: err}
	}
	return r, err
}
