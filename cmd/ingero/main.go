// Command ingero says why a GPU job was slow, and who did it.
package main

import (
	"os"
	_ "time/tzdata" // for machines and containers that have no time zones

	"ingero/internal/cli"
	"ingero/internal/jail"
	"ingero/internal/screen"
)

// Set by the linker: -X main.version=0.1.0 -X main.commit=... -X main.date=...
var version, commit, date string

func main() {
	jail.Enter()
	screen.Enter()
	os.Exit(cli.Main(cli.Env{
		Args:  os.Args[1:],
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Getenv: os.Getenv,
		Build:  cli.Build{Version: version, Commit: commit, Date: date},
	}))
}
