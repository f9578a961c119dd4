package cli

import (
	"fmt"
	"strings"
)

// Exit codes. `run` ends with its command's own, 128 + N for signal N.
const (
	exitOK       = 0
	exitFailed   = 1
	exitUsage    = 2
	exitDegraded = 3
	exitStuck    = 3
	exitDamaged  = 3
	exitDiffers  = 3
	exitFound    = 4
	exitCannot   = 126
	exitNotFound = 127
)

// exits are all codes, by the commands that end with them. The reference is made of
// them.
var exits = []struct {
	code     int
	commands string // empty: all
	when     string
}{
	{exitOK, "", "it did what it was asked"},
	{exitFailed, "", "it could not"},
	{exitFailed, "status, stuck", "nothing is traced"},
	{exitFailed, "check", "tracing cannot work here"},
	{exitUsage, "", "the command line, a setting or a statement is wrong"},
	{exitDegraded, "status", "it traces, but not all that it was asked to"},
	{exitStuck, "stuck", "a call has not returned"},
	{exitDamaged, "db verify", "something is damaged"},
	{exitDiffers, "replay", "`--check`: the causes are not those that were recorded"},
	{exitFound, "explain", "a cause as grave as `--fail-on` says was found"},
	{exitFound, "diff", "the second run is slower by as much as `--fail-on` says"},
	{exitCannot, "run", "the program cannot be started"},
	{exitNotFound, "run", "there is no such program"},
}

// exitDocs renders the codes as a table.
func exitDocs() string {
	var b strings.Builder
	b.WriteString("| code | of | when |\n|---|---|---|\n")
	for _, x := range exits {
		of := x.commands
		if of == "" {
			of = "all"
		}
		fmt.Fprintf(&b, "| %d | %s | %s |\n", x.code, of, x.when)
	}
	return b.String()
}

// exitCode ends the command with a code and without a word.
type exitCode int

// Error says it all the same, for a log.
func (c exitCode) Error() string { return fmt.Sprintf("exit status %d", int(c)) }
