package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func versionCommand(e *Env) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, commit and build date",
		Args:  noArguments,
		RunE:  func(*cobra.Command, []string) error { return e.printf("%s", e.Build.line()) },
	}
}

// number returns the version without the tag's v.
func (b Build) number() string { return strings.TrimPrefix(orElse(b.Version, "dev"), "v") }

// line returns the output of ingero version.
func (b Build) line() string {
	return fmt.Sprintf("ingero v%s (commit: %s, built: %s)\n", b.number(), orElse(b.Commit, "unknown"), orElse(b.Date, "unknown"))
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
