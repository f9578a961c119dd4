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

// tellers are the commands that tell of a newer release. query, mcp and version are not:
// programs read what they print.
var tellers = map[string]bool{"trace": true, "demo": true, "explain": true, "check": true}

// news is a question for a newer release beside a command, which waits for nothing.
type news struct {
	newer chan string   // by the answer that was kept; one value, or none
	done  chan struct{} // closed once nothing is asked any more
	stop  context.CancelFunc
}

// askNews asks, unless the command is none that tells, somebody said no, or this is no
// release.
func (e *Env) askNews(ctx context.Context, c *cobra.Command) *news {
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
	n := &news{newer: make(chan string, 1), done: make(chan struct{}), stop: stop}
	go func() {
		defer close(n.done)
		newer, ask := checker.Newer()
		n.newer <- newer
		if ask {
			_ = checker.Ask(ctx) // not to know of a release is no harm
		}
	}()
	return n
}

// checker keeps its answers in the folder of the person behind the command, as that
// person's.
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

// tell ends the question, and says to a person what is known by now. What is slow to
// end is left.
func (n *news) tell(e *Env) {
	if n == nil {
		return
	}
	n.stop()
	const patience = 50 * time.Millisecond // to write a line to a file
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

// repository is the owner and name in the address of releases.
func repository() string {
	_, rest, _ := strings.Cut(update.Releases, "/repos/")
	name, _ := strings.CutSuffix(rest, "/releases/latest")
	return name
}
