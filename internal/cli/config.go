package cli

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"ingero/internal/config"
	"ingero/internal/redact"
	"ingero/internal/wire"
)

func configCommand(e *Env) *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "Show each setting and its source, and check the settings",
		Long: `config show prints each setting and its source: the default, a line of a file, a variable
or a flag. It hides possible secrets. config check finds every error in the config files
and variables, with the line and what to do.

A trace that runs as a service reloads its settings on SIGHUP (systemctl reload ingero).
docs/reference/commands.md lists the settings that take effect on a reload; the trace
names those that need a restart. If any setting is invalid, all settings stay unchanged.`,
		Example: "  ingero config show\n  ingero config check\n  ingero config check new.yaml",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("ingero config --help lists the commands", "ingero config has no command %q", args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(e.configShow(), e.configCheck())
	return c
}

// secretVariables are variables that hold a secret and are not settings.
var secretVariables = []string{"INGERO_TOKEN", "INGERO_NOTIFY_SECRET", "OTEL_EXPORTER_OTLP_HEADERS"}

func (e *Env) configShow() *cobra.Command {
	asJSON, changed := false, false
	c := &cobra.Command{
		Use:     "show",
		Short:   "Print each setting, its value and its source",
		Example: "  ingero config show --changed\n  ingero config show --json",
		Args:    noArguments,
	}
	flags := config.Bind(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().BoolVar(&changed, "changed", false, "omit settings that have their default value")
	c.RunE = func(*cobra.Command, []string) error {
		s, err := e.settings(flags)
		if err != nil {
			return err
		}
		lines := e.shownSettings(s, changed)
		if asJSON {
			return e.json(lines)
		}
		return e.printf("%s", settingsTable(lines))
	}
	return c
}

// shownSettings returns the settings, then the variables that hold secrets, redacted.
func (e *Env) shownSettings(c *config.Config, changed bool) []wire.Setting {
	out := []wire.Setting{}
	for _, v := range c.Values() {
		if v.From == "" && (changed || v.Hidden) {
			continue
		}
		out = append(out, wire.Setting{Key: v.Key, Value: oneLine(v.Text), From: orElse(v.From, "default"), Reload: v.Reload})
	}
	for _, name := range secretVariables {
		if e.Getenv(name) != "" {
			out = append(out, wire.Setting{Key: name, Value: redact.Hidden, From: name})
		}
	}
	return out
}

func settingsTable(lines []wire.Setting) string {
	key, value := 0, 0
	for _, x := range lines {
		key, value = max(key, len(x.Key)), min(max(value, len(x.Value)), 40)
	}
	var b strings.Builder
	for _, x := range lines {
		fmt.Fprintf(&b, "%-*s  %-*s  %s\n", key, x.Key, value, x.Value, x.From)
	}
	return b.String()
}

func (e *Env) configCheck() *cobra.Command {
	c := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Find all errors in the settings",
		Long: `check reads the settings as every command does, and FILE as if --config named it. It
prints each error with its line and what to do, and exits with code 2 if it finds any.`,
		Example: "  ingero config check /etc/ingero/ingero.yaml",
		Args:    cobra.MaximumNArgs(1),
	}
	flags := config.Bind(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		in, err := e.inputs(flags)
		if err != nil {
			return err
		}
		if len(args) > 0 {
			path, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			in.Flags["config"] = path
		}
		return e.printCheck(config.Check(in))
	}
	return c
}

func (e *Env) printCheck(files []string, problems []*config.Error) error {
	for _, p := range problems {
		text := "[✗] " + oneLine(p.Error()) + "\n"
		if p.Do != "" {
			text += "    " + oneLine(p.Do) + "\n"
		}
		if err := e.printf("%s", text); err != nil {
			return err
		}
	}
	if len(problems) > 0 {
		return exitCode(exitUsage)
	}
	from := "there is no config file"
	if len(files) > 0 {
		from = strings.Join(files, ", ")
	}
	return e.printf("[✓] The settings are valid (%s)\n", from)
}
