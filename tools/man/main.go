// Command man writes the manual pages, one per command and ingero.yaml(5) for the settings, and
// shell completions. They come from the same tables as docs/reference/commands.md, and go into
// packages. go run ./tools/man DIR DATE writes DIR/man and DIR/completions, with a date such as
// 2026-01-02T15:04:05Z.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/spf13/cobra/doc"

	"ingero/internal/cli"
	"ingero/internal/config"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: man DIR DATE")
		os.Exit(2)
	}
	if err := errors.Join(write(filepath.Join(os.Args[1], "man"), os.Args[2]), completions(filepath.Join(os.Args[1], "completions"))); err != nil {
		fmt.Fprintln(os.Stderr, "man:", err)
		os.Exit(1)
	}
}

// completions writes the completion scripts of shells into dir, which it creates.
func completions(dir string) error {
	root := cli.Commands()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return errors.Join(
		root.GenBashCompletionFileV2(filepath.Join(dir, "ingero.bash"), true),
		root.GenZshCompletionFile(filepath.Join(dir, "_ingero")),
		root.GenFishCompletionFile(filepath.Join(dir, "ingero.fish"), true),
	)
}

// write writes all pages into dir, which it creates.
func write(dir, date string) error {
	when, err := time.Parse(time.RFC3339, date)
	if err != nil {
		return err
	}
	root := cli.Commands()
	root.DisableAutoGenTag = true
	header := &doc.GenManHeader{Title: "INGERO", Section: "1", Source: "ingero", Manual: "ingero", Date: &when}
	if err := errors.Join(os.MkdirAll(dir, 0o755), doc.GenManTree(root, header, dir)); err != nil {
		return err
	}
	page := fmt.Sprintf(`%% "INGERO.YAML" "5" "%s" "ingero" "ingero"

# NAME
ingero.yaml - settings of ingero(1)

# SYNOPSIS
/etc/ingero/ingero.yaml, ./ingero.yaml, or the file of --config

# DESCRIPTION
Each line is KEY: VALUE; a dot in the name of a setting is a level of the file. Each layer
outranks those before it: defaults, /etc/ingero/ingero.yaml, ./ingero.yaml (never as root),
the file of --config, variables, flags. **ingero config show** tells what is in force and
where it came from, **ingero config check** what is wrong. A service that is sent SIGHUP takes
new values of those that can change at run time.

# SETTINGS

%s
# SEE ALSO
ingero(1), ingero-config(1)
`, when.Format("Jan 2006"), config.Reference())
	return os.WriteFile(filepath.Join(dir, "ingero.yaml.5"), md2man.Render([]byte(page)), 0o644)
}
