package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ingero/internal/config"
)

// Docs writes the reference of all commands and settings, in Markdown.
func Docs(w io.Writer) error {
	var b strings.Builder
	b.WriteString(`# Commands

<!-- Generated from internal/cli and internal/config: go test ./internal/cli -run TestDocs -update -->

`)
	root := (&Env{}).root()
	for _, c := range root.Commands() {
		fmt.Fprintf(&b, "- [ingero %s](#ingero-%s): %s\n", c.Name(), c.Name(), c.Short)
	}
	b.WriteString(`
A command ends with 0 when it did what it was asked, 1 when it could not, and 2
when the command line or a setting is wrong; what else a command can end with it
says below. Standard output is data, standard error is for people. An error is a
line that says what happened and a line that says what to do.

`)
	for _, c := range root.Commands() {
		docs(&b, c)
	}
	b.WriteString(`## Settings

Each layer outranks those before it: defaults, /etc/ingero/ingero.yaml,
./ingero.yaml (never as root), the file of --config, variables, flags. A dot in
the name of a setting is a level of the file.

`)
	b.WriteString(config.Reference())
	_, err := io.WriteString(w, b.String())
	return err
}

func docs(b *strings.Builder, c *cobra.Command) {
	fmt.Fprintf(b, "## ingero %s\n\n%s\n\n", c.Name(), c.Short+".")
	fmt.Fprintf(b, "    %s\n\n", c.UseLine())
	if c.Long != "" {
		fmt.Fprintf(b, "%s\n\n", c.Long)
	}
	if c.Example != "" {
		fmt.Fprintf(b, "```\n%s\n```\n\n", outdent(c.Example))
	}
	rows := 0
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		if rows++; rows == 1 {
			b.WriteString("| flag | default | |\n|---|---|---|\n")
		}
		name := "`--" + f.Name + "`"
		if f.Shorthand != "" {
			name += ", `-" + f.Shorthand + "`"
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", name, f.DefValue, strings.ReplaceAll(f.Usage, "|", "\\|"))
	})
	if rows > 0 {
		b.WriteByte('\n')
	}
}

func outdent(s string) string {
	return strings.TrimPrefix(strings.ReplaceAll(s, "\n  ", "\n"), "  ")
}
