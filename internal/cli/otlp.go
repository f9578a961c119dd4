package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"ingero/internal/config"
	"ingero/internal/export/otlp"
	"ingero/internal/wire"
)

// maxHeaders limits the size of a file of headers, in bytes.
const maxHeaders = 64 << 10

// exportOTLP sends metrics, spans and logs to an OpenTelemetry receiver.
func exportOTLP(_ context.Context, x *exports, c *config.Config) error {
	o := &c.Trace.OTLP
	if o.Endpoint == "" {
		return nil
	}
	headers, err := headersOf(o.HeadersFile)
	if err != nil {
		return &problem{What: "--otlp-headers-file: " + err.Error(), Do: "name a file with lines of Name: value", Code: exitUsage, Err: err}
	}
	protocol := otlp.Protocol(o.Protocol)
	if o.Protocol == "auto" {
		protocol = ""
	}
	options, err := otlp.Configure(otlp.Settings{Endpoint: o.Endpoint, Spans: otlp.Spans(o.Traces), Protocol: protocol,
		Headers: headers, CAFile: o.CAFile, Getenv: x.getenv})
	if err != nil {
		return &problem{What: err.Error(), Do: "ingero trace --otlp localhost:4318, or --otlp https://HOST; see docs/guides/opentelemetry.md", Code: exitUsage, Err: err}
	}
	options.Node, options.Version, options.Log = x.node, x.version, x.log
	s, err := otlp.New(options)
	if err != nil {
		return &problem{What: "--otlp has nothing to send: the environment disables every signal", Do: "unset OTEL_METRICS_EXPORTER, OTEL_TRACES_EXPORTER or OTEL_LOGS_EXPORTER", Code: exitUsage, Err: err}
	}
	x.metrics().Publish = s.Publish
	x.sinks = append(x.sinks, otlpSink{s})
	x.states = append(x.states, func() []wire.Export { return sendStates(s) })
	x.onClose = append(x.onClose, func() error {
		err := s.Close()
		for _, t := range s.State() {
			for why, n := range t.Lost {
				x.log.Warn("otlp: not delivered", "signal", t.Signal.String(), "items", n, "why", why)
			}
		}
		return err
	})
	for i := range options.Targets {
		if t := &options.Targets[i]; t.Clear() {
			x.log.Warn("otlp: headers are sent unencrypted; use an https:// URL for the receiver", "to", t.URL.Host)
			break
		}
	}
	x.say(sendText(&options))
	return nil
}

// otlpSink ignores Close: the exporter is closed after all sinks have received the last tick.
type otlpSink struct{ *otlp.Exporter }

// Close implements [tick.Sink].
func (otlpSink) Close() error { return nil }

func headersOf(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // opened read-only
	text, err := io.ReadAll(io.LimitReader(f, maxHeaders+1))
	if err == nil && len(text) > maxHeaders {
		err = fmt.Errorf("%s has more than %d bytes", path, maxHeaders)
	}
	return string(text), err
}

// sendStates returns the state of each signal.
func sendStates(s *otlp.Exporter) (out []wire.Export) {
	for _, t := range s.State() {
		out = append(out, wire.Export{Name: "otlp " + t.Signal.String(), To: t.To, Sent: t.Items, Lost: t.Lost, Problem: t.Problem})
	}
	return out
}

// sendText describes what is sent and where.
func sendText(o *otlp.Options) string {
	var what, to []string
	for sig := range otlp.Signals {
		t := &o.Targets[sig]
		if t.URL == nil {
			continue
		}
		what = append(what, sig.String())
		if place := fmt.Sprintf("%s://%s (%s)", t.URL.Scheme, t.URL.Host, t.Protocol); len(to) == 0 || to[len(to)-1] != place {
			to = append(to, place)
		}
	}
	return "OTLP: " + strings.Join(what, ", ") + " to " + strings.Join(to, ", ")
}
