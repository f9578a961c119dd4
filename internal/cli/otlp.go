package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"ingero/internal/config"
	"ingero/internal/export/otlp"
	"ingero/internal/lock"
	"ingero/internal/metric"
	"ingero/internal/tick"
)

// maxHeaders bounds a file of headers, in bytes.
const maxHeaders = 64 << 10

// telemetry is what a trace sends to an OpenTelemetry receiver. The nil telemetry is that
// of a trace that sends nothing.
type telemetry struct {
	options  otlp.Options
	exporter *otlp.Exporter // nil before start
}

// telemetry returns what is to be sent, nil for nothing. It opens no connection.
func (e *Env) telemetry(c *config.Config) (*telemetry, error) {
	o := &c.Trace.OTLP
	if o.Endpoint == "" {
		return nil, nil
	}
	headers, err := headersOf(o.HeadersFile)
	if err != nil {
		return nil, &problem{What: "--otlp-headers-file: " + err.Error(), Do: "name a file with lines of Name: value", Code: exitUsage, Err: err}
	}
	x := &telemetry{}
	x.options, err = otlp.Configure(otlp.Settings{Endpoint: o.Endpoint, Spans: otlp.Spans(o.Traces), Protocol: otlp.Protocol(o.Protocol),
		Headers: headers, CAFile: o.CAFile, Getenv: e.Getenv})
	if err != nil {
		return nil, &problem{What: err.Error(), Do: "docs/opentelemetry.md has examples", Code: exitUsage, Err: err}
	}
	x.options.Node, x.options.Version, x.options.Log = c.Node, e.Build.number(), e.logger(c.Debug)
	return x, nil
}

func headersOf(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // read only
	text, err := io.ReadAll(io.LimitReader(f, maxHeaders+1))
	if err == nil && len(text) > maxHeaders {
		err = fmt.Errorf("%s has more than %d bytes", path, maxHeaders)
	}
	return string(text), err
}

// start begins to export and returns the sinks.
func (x *telemetry) start() []tick.Sink {
	if x == nil {
		return nil
	}
	var err error
	if x.exporter, err = otlp.New(x.options); err != nil { // every signal is off
		return nil
	}
	meter := metric.New(metric.Options{Version: x.options.Version, Node: x.options.Node, Publish: x.exporter.Publish})
	return []tick.Sink{meter, leftOpen{x.exporter}}
}

// leftOpen is a sink that is closed when all sinks have had the last tick.
type leftOpen struct{ *otlp.Exporter }

// Close implements [tick.Sink].
func (leftOpen) Close() error { return nil }

// close sends what is left.
func (x *telemetry) close() error {
	if x == nil || x.exporter == nil {
		return nil
	}
	err := x.exporter.Close()
	for _, s := range x.exporter.State() {
		for why, n := range s.Lost {
			x.options.Log.Warn("otlp: not delivered", "signal", s.Signal.String(), "items", n, "why", why)
		}
	}
	return err
}

// state is how sending goes.
func (x *telemetry) state() (out []lock.Export) {
	if x == nil || x.exporter == nil {
		return nil
	}
	for _, s := range x.exporter.State() {
		out = append(out, lock.Export{Name: "otlp " + s.Signal.String(), To: s.To, Sent: s.Items, Lost: s.Lost, Problem: s.Problem})
	}
	return out
}

// String says where what is sent.
func (x *telemetry) String() string {
	var what []string
	t := x.options.Targets[otlp.Metrics]
	for sig, target := range x.options.Targets {
		if target.URL != nil {
			t = target
			what = append(what, otlp.Signal(sig).String())
		}
	}
	if t.URL == nil {
		return "Nothing is sent by OTLP: the environment says none"
	}
	return fmt.Sprintf("Sending %s to %s://%s (OTLP, %s)", strings.Join(what, ", "), t.URL.Scheme, t.URL.Host, t.Protocol)
}
