package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// shells maps each supported shell to its script generator.
var shells = map[string]func(root *cobra.Command, e *Env) error{
	"bash": func(root *cobra.Command, e *Env) error { return root.GenBashCompletionV2(e.Stdout, true) },
	"zsh":  func(root *cobra.Command, e *Env) error { return root.GenZshCompletion(e.Stdout) },
	"fish": func(root *cobra.Command, e *Env) error { return root.GenFishCompletion(e.Stdout, true) },
}

func completionCommand(e *Env) *cobra.Command {
	names := []string{"bash", "zsh", "fish"}
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print a shell completion script for commands, flags and their values",
		Long: `completion prints a completion script. The packages install it; otherwise, save it where
your shell looks for completion scripts.`,
		Example: `  ingero completion bash > ~/.local/share/bash-completion/completions/ingero
  ingero completion zsh > ~/.zfunc/_ingero
  ingero completion fish > ~/.config/fish/completions/ingero.fish`,
		ValidArgs: names,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || shells[args[0]] == nil {
				return usage("ingero completion bash", "completion requires the name of a shell: %s", strings.Join(names, ", "))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return shells[args[0]](c.Root(), e) },
	}
}
