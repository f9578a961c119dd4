package config

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Flags holds the flags given to one command.
type Flags struct{ given map[string]string }

// Bind adds the flags of a command's settings to the command. After parsing, [Flags.Given]
// returns their values for [Inputs].
func Bind(c *cobra.Command) *Flags {
	f := &Flags{given: map[string]string{}}
	for i := range Settings {
		s := &Settings[i]
		if s.Flag == "" || !s.For(c.Name()) {
			continue
		}
		flag := c.Flags().VarPF(&flagValue{f: f, s: s}, s.Flag, s.Short, s.Help)
		flag.Hidden = s.Hidden
		if s.Kind() == "bool" {
			flag.NoOptDefVal = "true"
		}
		if s.Bare != "" {
			flag.NoOptDefVal = s.Bare
		}
		s.complete(c)
	}
	return f
}

// complete registers the flag's values for shell completion.
func (s *Setting) complete(c *cobra.Command) {
	kind := s.Kind()
	if kind == "path" || kind == "paths" {
		return // default completion: file names
	}
	// It fails only if the flag does not exist or already has a completion.
	_ = c.RegisterFlagCompletionFunc(s.Flag, cobra.FixedCompletions(s.Choices, cobra.ShellCompDirectiveNoFileComp))
}

// Given returns the given flags, by name.
func (f *Flags) Given() map[string]string { return f.given }

// flagValue implements pflag.Value. It keeps the text for Load, which merges the layers, and
// rejects invalid values at once.
type flagValue struct {
	f *Flags
	s *Setting
}

// Set implements pflag.Value.
func (v *flagValue) Set(text string) error {
	// Load resolves the real home directory.
	if err := v.s.set(new(Config), text, Inputs{Home: "/"}, "/"); err != nil {
		return err
	}
	if old, ok := v.f.given[v.s.Flag]; ok && between[v.s.Kind()] != "" { // --pid 1 --pid 2
		text = old + between[v.s.Kind()] + text
	}
	v.f.given[v.s.Flag] = text
	return nil
}

// String implements pflag.Value.
func (v *flagValue) String() string {
	if v.s == nil { // pflag creates a zero value for comparison
		return ""
	}
	return v.s.Default
}

// Type implements pflag.Value.
func (v *flagValue) Type() string { return v.s.Kind() }

// Reference returns the settings as a table in Markdown, for docs/reference/commands.md.
func Reference() string {
	var b strings.Builder
	b.WriteString("| setting | variable | flag | commands | kind | default | at run time | |\n|---|---|---|---|---|---|---|---|\n")
	for i := range Settings {
		s := &Settings[i]
		if s.Hidden {
			continue
		}
		flag := ""
		if s.Flag != "" {
			flag = "`--" + s.Flag + "`"
		}
		if s.Short != "" {
			flag += ", `-" + s.Short + "`"
		}
		commands := "all"
		if s.Commands != nil {
			commands = strings.Join(s.Commands, ", ")
		}
		key := "`" + s.Key + "`"
		if s.Key == configKey {
			key = "" // a file cannot name another file
		}
		reload := ""
		if s.Reload {
			reload = "yes"
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s | %s | %s | %s | %s |\n", key, s.Env, flag, commands, s.Kind(), s.Default, reload, s.Help)
	}
	return b.String()
}
