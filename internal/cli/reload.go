package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"ingero/internal/config"
)

// reloads are what a running trace does with the new value of a setting, by key: those
// whose row says Reload, which a test compares. All others need a restart.
var reloads = map[string]func(*tracing, *config.Config){
	"causes.min-severity": (*tracing).filterAnew,
	"causes.rules-off":    (*tracing).filterAnew,
	"trace.max-db":        (*tracing).boundsAnew,
	"trace.max-age":       (*tracing).boundsAnew,
}

func (t *tracing) filterAnew(c *config.Config) {
	f := filter(c)
	t.hider.anew.Store(&f)
}

func (t *tracing) boundsAnew(c *config.Config) {
	if t.rec != nil {
		t.rec.db.SetBounds(c.Trace.MaxDB, c.Trace.MaxAge)
	}
}

// hangup is what SIGHUP does: it ends the command, until somebody takes it.
type hangup struct {
	mu sync.Mutex
	do func() // nil: end
}

// take has do called instead. The nil hangup is of somebody else.
func (h *hangup) take(do func()) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.do = do
}

// signals returns a context that SIGINT and SIGTERM end, and SIGHUP where nobody takes
// it. stop must be called; it waits for what a SIGHUP does.
func (h *hangup) signals() (ctx context.Context, stop func()) {
	ctx, end := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, unix.SIGHUP)
	context.AfterFunc(ctx, func() { end(); signal.Stop(hup) }) // a second one ends it at once
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ctx.Done():
				return
			case <-hup:
			}
			h.mu.Lock()
			if h.do == nil {
				end()
			} else {
				h.do()
			}
			h.mu.Unlock()
		}
	}()
	return ctx, func() { end(); <-done }
}

// reloadable has SIGHUP read the settings of a trace anew until stop is called, where
// no terminal hangs up by it.
func (e *Env) reloadable(t *tracing, c *config.Config, say func(string)) (stop func()) {
	if tty, err := os.OpenFile("/dev/tty", os.O_RDONLY|unix.O_NOCTTY, 0); err == nil {
		_ = tty.Close()
		return func() {}
	}
	e.hangup.take(func() {
		_ = t.manager.Reloading() // who does not listen need not know
		c = t.reload(c, e.again, say)
		_ = t.manager.Ready("tracing")
	})
	return func() { e.hangup.take(nil) }
}

// reload reads the settings anew, does what can be done with those that have changed,
// and says so. It returns the settings that are in force, as they were where the new ones
// cannot be used.
func (t *tracing) reload(old *config.Config, read func() (*config.Config, error), say func(string)) *config.Config {
	c, err := read()
	if err != nil {
		p := inWords(err)
		say("ingero: the settings stay unchanged: " + p.What)
		if p.Do != "" {
			say("        " + p.Do)
		}
		return old
	}
	var restart []string
	changed := config.Differ(old, c)
	for _, s := range changed {
		apply := reloads[s.Key]
		if apply == nil {
			restart = append(restart, s.Key)
			continue
		}
		apply(t, c)
		say(fmt.Sprintf("ingero: %s is now %s", s.Key, orElse(s.Shown(c), "empty")))
	}
	if len(restart) > 0 {
		say("ingero: unchanged until a restart: " + strings.Join(restart, ", "))
	}
	if len(changed) == 0 {
		say("ingero: reloaded the settings: no changes")
	}
	return c
}
