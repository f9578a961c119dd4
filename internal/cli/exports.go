package cli

import (
	"context"
	"errors"
	"log/slog"

	"golang.org/x/sys/unix"

	"ingero/internal/config"
	"ingero/internal/export/prom"
	"ingero/internal/listen"
	"ingero/internal/metric"
	"ingero/internal/tick"
	"ingero/internal/wire"
)

// exports holds what a trace exports to other programs while it runs. By default, it exports
// nothing.
type exports struct {
	node, version string
	getenv        func(string) string
	log           *slog.Logger
	say           func(line string)
	sinks         []tick.Sink
	meter         *metric.Meter // shared by all metric exporters; nil: no exporter
	onClose       []func() error
	states        []func() []wire.Export // states of the exporters that send
	alive         func()                 // reports that the trace waits for an output; nil: to nobody
}

// exporters open the exports of a trace. Each does nothing unless the settings enable it.
var exporters = []func(context.Context, *exports, *config.Config) error{
	exportPrometheus,
	exportOTLP,
	exportNotify,
	followToClickHouse,
}

// exports opens the configured exports. It calls say with a line for each.
func (e *Env) exports(ctx context.Context, c *config.Config, log *slog.Logger, say func(string)) (*exports, error) {
	x := &exports{node: c.Node, version: e.Build.number(), getenv: e.Getenv, log: log, say: say}
	for _, open := range exporters {
		if err := open(ctx, x, c); err != nil {
			return nil, errors.Join(err, x.close())
		}
	}
	return x, nil
}

// metrics returns the meter that all metric exporters share. The first call creates it.
func (x *exports) metrics() *metric.Meter {
	if x.meter == nil {
		x.meter = metric.New(metric.Options{Version: x.version, Node: x.node})
		x.sinks = append(x.sinks, x.meter)
	}
	return x.meter
}

// state returns the states of the exporters that send.
func (x *exports) state() (out []wire.Export) {
	for _, f := range x.states {
		out = append(out, f()...)
	}
	return out
}

// close closes the exporters, except the sinks, which the session closes.
func (x *exports) close() error {
	var errs []error
	for _, f := range x.onClose {
		errs = append(errs, f())
	}
	x.onClose = nil
	return errors.Join(errs...)
}

// end calls close in a defer and adds its error to err.
func (x *exports) end(err *error) {
	if e := x.close(); e != nil {
		*err = errors.Join(*err, e)
	}
}

// exportPrometheus serves metrics for Prometheus to scrape.
func exportPrometheus(ctx context.Context, x *exports, c *config.Config) error {
	if c.Trace.Prometheus == "" {
		return nil
	}
	l, err := listenOn(ctx, "--prometheus", c.Trace.Prometheus, listen.Options{Public: true})
	if err != nil {
		return err
	}
	s := prom.Serve(l, x.metrics().Snapshot, x.log)
	x.onClose = append(x.onClose, s.Close)
	x.alive = s.Alive
	x.say("Metrics: http://" + l.String())
	return nil
}

// listenOn listens on the address text of a flag, or returns an error with a remedy.
func listenOn(ctx context.Context, flag, text string, o listen.Options) (*listen.Listener, error) {
	a, err := listen.Parse(text)
	if err != nil {
		return nil, usage("ingero ... "+flag+" :9090", "%s: %v", flag, err)
	}
	l, err := listen.Listen(ctx, a, o)
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, listen.ErrOpen):
		return nil, &problem{What: flag + " " + text + ": other machines can reach this address, so the server requires a token", Do: "set a token, or use " + flag + " :PORT for this machine only", Code: exitUsage, Err: err}
	case errors.Is(err, unix.EADDRINUSE):
		return nil, &problem{What: flag + " " + text + ": another program uses this port", Do: "choose another port, or find and end that program: ss -ltnp", Err: err}
	}
	return nil, &problem{What: flag + " " + text + ": " + err.Error(), Do: "use an address of this machine; to list them: ip address", Err: err}
}
