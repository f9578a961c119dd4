package cli

import (
	"context"
	"errors"
	"log/slog"

	"golang.org/x/sys/unix"

	"ingero/internal/config"
	"ingero/internal/export/prom"
	"ingero/internal/listen"
	"ingero/internal/lock"
	"ingero/internal/metric"
	"ingero/internal/tick"
)

// exports are what a trace gives to other programs while it runs: nothing, unless
// settings say so.
type exports struct {
	node, version string
	getenv        func(string) string
	log           *slog.Logger
	say           func(line string)
	sinks         []tick.Sink
	meter         *metric.Meter // of all that export metrics; nil: none does
	onClose       []func() error
	states        []func() []lock.Export // of those that send
}

// exporters are the ways in which a trace can be exported. Each looks itself whether the
// settings ask for it.
var exporters = []func(context.Context, *exports, *config.Config) error{
	exportPrometheus,
	exportOTLP,
	exportNotify,
	followToClickHouse,
}

// exports opens what the settings ask for. say is told what was opened.
func (e *Env) exports(ctx context.Context, c *config.Config, log *slog.Logger, say func(string)) (*exports, error) {
	x := &exports{node: c.Node, version: e.Build.number(), getenv: e.Getenv, log: log, say: say}
	for _, open := range exporters {
		if err := open(ctx, x, c); err != nil {
			return nil, errors.Join(err, x.close())
		}
	}
	return x, nil
}

// metrics returns the one meter of all that export metrics.
func (x *exports) metrics() *metric.Meter {
	if x.meter == nil {
		x.meter = metric.New(metric.Options{Version: x.version, Node: x.node})
		x.sinks = append(x.sinks, x.meter)
	}
	return x.meter
}

// state is how those do that send.
func (x *exports) state() (out []lock.Export) {
	for _, f := range x.states {
		out = append(out, f()...)
	}
	return out
}

// close ends what was opened beside the sinks, which the session closes.
func (x *exports) close() error {
	var errs []error
	for _, f := range x.onClose {
		errs = append(errs, f())
	}
	x.onClose = nil
	return errors.Join(errs...)
}

// end is close for a defer.
func (x *exports) end(err *error) {
	if e := x.close(); e != nil {
		*err = errors.Join(*err, e)
	}
}

// exportPrometheus serves metrics.
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
	x.say("Metrics: http://" + l.String())
	return nil
}

// listenOn opens a port that a flag asks for, or says why that cannot be.
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
