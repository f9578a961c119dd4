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

// reloads maps a setting's key to the function that applies its new value to a running trace.
// A test compares the keys with the settings marked Reload. Other settings need a restart.
var reloads = map[string]func(*tracing, *config.Config){
	"causes.min-severity": (*tracing).filterAnew,
	"causes.rules-off":    (*tracing).filterAnew,
	"trace.max-db":        (*tracing).boundsAnew,
	"trace.max-age":       (*tracing).boundsAnew,
}

func (t *tracing) filterAnew(c *config.Config) {
	f := filter(c)
	t.hidden.anew.Store(&f)
}

func (t *tracing) boundsAnew(c *config.Config) {
	if t.rec != nil {
		t.rec.db.SetBounds(c.Trace.MaxDB, c.Trace.MaxAge)
	}
}

// hangup handles SIGHUP. By default, SIGHUP ends the command.
type hangup struct {
	mu sync.Mutex
	do func() // handler; nil: end the command
}

// take sets the handler, nil for the default. On a nil hangup, it does nothing.
func (h *hangup) take(do func()) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.do = do
}

// signals returns a context that SIGINT and SIGTERM cancel, and SIGHUP if there is no handler and it
// is not ignored.
// The caller must call stop, which waits for a running handler.
func (h *hangup) signals() (ctx context.Context, stop func()) {
	ctx, end := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	hup := make(chan os.Signal, 1)
	if !signal.Ignored(unix.SIGHUP) { // nohup has this program ignore it, and the one that it starts
		signal.Notify(hup, unix.SIGHUP)
	}
	context.AfterFunc(ctx, func() { end(); signal.Stop(hup) }) // a second signal ends the process at once
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

// reloadable makes SIGHUP reload a trace's settings until stop is called. It does nothing if
// there is a controlling terminal, where SIGHUP means that the terminal hung up.
func (e *Env) reloadable(t *tracing, c *config.Config, say func(string)) (stop func()) {
	if tty, err := os.OpenFile("/dev/tty", os.O_RDONLY|unix.O_NOCTTY, 0); err == nil {
		_ = tty.Close()
		return func() {}
	}
	e.hangup.take(func() {
		_ = t.manager.Reloading() // an error means that no manager listens
		c = t.reload(c, e.again, say)
		_ = t.manager.Ready("tracing")
	})
	return func() { e.hangup.take(nil) }
}

// reload reads the settings again, applies the changed ones and reports each. It returns the
// settings in force: the old ones if the new ones are invalid.
func (t *tracing) reload(old *config.Config, read func() (*config.Config, error), say func(string)) *config.Config {
	c, err := read()
	if err != nil {
		p := problemOf(err)
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
