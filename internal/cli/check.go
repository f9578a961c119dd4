package cli

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"ingero/internal/cli/check"
)

func checkCommand(e *Env) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:   "check",
		Short: "Say whether this machine can be traced, and what each missing thing costs",
		Long: `check looks at the kernel, the GPU driver, the CUDA libraries and the processes
that use them. As root it also tries each feature of the kernel that ingero can use.

It ends with 1 when tracing cannot work here, else with 0.`,
		Example: "  sudo ingero check\n  ingero check | grep ptrace_scope\n  sudo ingero check --json",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			r := check.Run(c.Context(), check.Machine{Lock: e.Lock})
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
	c.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	return c
}
