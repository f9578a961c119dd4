package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ingero/internal/config"
	"ingero/internal/store"
	"ingero/internal/update"
)

// tellers lists the commands that announce a newer release. query, mcp and version do not:
// programs read their output.
var tellers = map[string]bool{"trace": true, "demo": true, "explain": true, "check": true}

// updateCheck is a check for a newer release that runs beside a command. The command never waits for it.
type updateCheck struct {
	newer chan string   // the saved answer; at most one value
	done  chan struct{} // closed when the check has ended
	stop  context.CancelFunc
}

// checkForUpdate starts the check. It returns nil if the command does not announce releases, if the
// check is disabled, or if this is not a release build.
func (e *Env) checkForUpdate(ctx context.Context, c *cobra.Command) *updateCheck {
	if !tellers[c.Name()] || c.Parent() != c.Root() || !update.Released(e.Build.Version) || e.Getenv("INGERO_NO_UPDATE_NOTIFIER") != "" {
		return nil
	}
	in, err := e.inputs(&config.Flags{})
	if err != nil || in.Home == "" {
		return nil
	}
	settings, err := config.Load(in)
	if err != nil || !settings.UpdateCheck {
		return nil
	}
	checker := e.checker(in.Home)
	ctx, stop := context.WithCancel(ctx)
	n := &updateCheck{newer: make(chan string, 1), done: make(chan struct{}), stop: stop}
	go func() {
		defer close(n.done)
		newer, ask := checker.Newer()
		n.newer <- newer
		if ask {
			_ = checker.Fetch(ctx) // an error only delays the announcement
		}
	}()
	return n
}

// checker saves its answers in the invoker's home directory, with the invoker as the owner.
func (e *Env) checker(home string) *update.Checker {
	now := e.Now
	if now == nil {
		now = time.Now
	}
	who := e.invoker()
	var owner *store.Owner
	if who.Sudo {
		owner = &store.Owner{UID: who.UID, GID: who.GID}
	}
	return &update.Checker{URL: orElse(e.releases, update.Releases), Version: e.Build.number(), Now: now, Client: e.client,
		File: func() (*os.File, error) {
			return store.OpenFile(filepath.Join(home, ".ingero", "update-check"), owner)
		}}
}

// print ends the check and prints a newer release to a terminal. It does not wait for a slow
// check.
func (n *updateCheck) print(e *Env) {
	if n == nil {
		return
	}
	n.stop()
	const patience = 50 * time.Millisecond // enough to write a line to a file
	select {
	case <-n.done:
	case <-time.After(patience):
	}
	newer := ""
	select {
	case newer = <-n.newer:
	default:
	}
	if newer != "" && isTerminal(e.Stderr, e.Getenv) {
		_, _ = fmt.Fprintf(e.Stderr, "ingero: %s is available, this is %s: https://github.com/%s/releases (to disable this check: INGERO_NO_UPDATE_NOTIFIER=1)\n",
			newer, e.Build.number(), repository())
	}
}

// repository returns the owner and name in the URL of the releases.
func repository() string {
	_, rest, _ := strings.Cut(update.Releases, "/repos/")
	name, _ := strings.CutSuffix(rest, "/releases/latest")
	return name
}
