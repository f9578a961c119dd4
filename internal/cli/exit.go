package cli

import (
	"fmt"
	"strings"
)

// Exit codes. `run` exits with its program's code, or 128 + N for signal N.
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

// exits lists the exit codes by command. The reference is generated from it.
var exits = []struct {
	code     int
	commands string // empty: all
	when     string
}{
	{exitOK, "", "success"},
	{exitFailed, "", "failure"},
	{exitFailed, "status, stuck", "no trace is running"},
	{exitFailed, "check", "ingero cannot trace here"},
	{exitUsage, "", "invalid command line, setting or statement"},
	{exitDegraded, "status", "a trace is running but degraded"},
	{exitStuck, "stuck", "a call has not returned"},
	{exitDamaged, "db verify", "the database is damaged"},
	{exitDiffers, "replay", "`--check`: the causes differ from the recorded ones"},
	{exitFound, "explain", "a cause of the severity of `--fail-on` or higher was found"},
	{exitFound, "diff", "the second run is slower by `--fail-on` or more"},
	{exitCannot, "run", "the program cannot be executed"},
	{exitNotFound, "run", "the program does not exist"},
}

// exitDocs renders the codes as a table.
func exitDocs() string {
	var b strings.Builder
	b.WriteString("| code | command | meaning |\n|---|---|---|\n")
	for _, x := range exits {
		of := x.commands
		if of == "" {
			of = "all"
		}
		fmt.Fprintf(&b, "| %d | %s | %s |\n", x.code, of, x.when)
	}
	return b.String()
}

// exitCode is an error that ends the command with this code and without a message.
type exitCode int

// Error returns a message for logs.
func (c exitCode) Error() string { return fmt.Sprintf("exit status %d", int(c)) }
