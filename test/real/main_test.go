//go:build real

package real

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"ingero/internal/cli"
	"ingero/internal/jail"
	"ingero/internal/lock"
	"ingero/internal/screen"
)

// asIngero is the environment variable that makes the test binary ingero. It has a directory for
// its lock, and the lock's mark, which no other trace has.
const asIngero = "REAL_INGERO"

func TestMain(m *testing.M) {
	jail.Enter()
	screen.Enter()
	if at := os.Getenv(asIngero); at != "" {
		dir, mark, _ := strings.Cut(at, ":")
		place := lock.Place{Dirs: []string{dir}}
		if _, err := fmt.Sscan(mark, &place.Mark); err != nil {
			panic(err)
		}
		os.Exit(cli.Main(cli.Env{Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv,
			Lock: place, Build: cli.Build{Version: "v1.2.3", Commit: "abc", Date: "2026-01-02"}}))
	}
	os.Exit(m.Run())
}
