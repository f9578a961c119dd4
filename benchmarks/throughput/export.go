package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"time"

	"ingero/internal/export/otlp"
	"ingero/internal/export/prom"
	"ingero/internal/listen"
	"ingero/internal/metric"
	"ingero/internal/tick"
)

// export is an output whose cost is measured, with its receiver. The receiver is a separate
// process, so that its CPU time is not the agent's.
type export struct {
	name string
	open func() (sinks []tick.Sink, end func() error, err error)
}

// exports is the table of outputs.
var exports = []export{
	{"", func() ([]tick.Sink, func() error, error) { return nil, func() error { return nil }, nil }},
	{"prometheus", func() ([]tick.Sink, func() error, error) { return servePrometheus("-scrape") }},
	{"clickhouse", none},
	{"clickhouse-away", none},
	{"prometheus-hung", func() ([]tick.Sink, func() error, error) { return servePrometheus("-hang") }},
	{"otlp", func() ([]tick.Sink, func() error, error) { return sendOTLP("-receive", otlp.SpansNotable) }},
	{"otlp-metrics", func() ([]tick.Sink, func() error, error) { return sendOTLP("-receive", otlp.SpansOff) }},
	{"otlp-all", func() ([]tick.Sink, func() error, error) { return sendOTLP("-receive", otlp.SpansAll) }},
	{"otlp-away", func() ([]tick.Sink, func() error, error) { return sendOTLP("", otlp.SpansAll) }},
}

// exportOf returns an output by name.
func exportOf(name string) (export, error) {
	at := slices.IndexFunc(exports, func(e export) bool { return e.name == name })
	if at < 0 {
		return export{}, fmt.Errorf("-export: there is no %q", name)
	}
	return exports[at], nil
}

// servePrometheus serves metrics to this program, run with a flag.
func servePrometheus(flag string) ([]tick.Sink, func() error, error) {
	a, err := listen.Parse(":0")
	if err != nil {
		return nil, nil, err
	}
	l, err := listen.Listen(context.Background(), a, listen.Options{})
	if err != nil {
		return nil, nil, err
	}
	m := metric.New(metric.Options{})
	s := prom.Serve(l, m.Snapshot, nil)
	asks := exec.Command("/proc/self/exe", flag, s.URL())
	if err := asks.Start(); err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	return []tick.Sink{m}, func() error {
		err := asks.Process.Kill()
		_ = asks.Wait() // reports that it was killed
		return errors.Join(err, s.Close())
	}, nil
}

// scrape scrapes the metrics once a second, as Prometheus does.
func scrape(at string) error {
	r, err := http.NewRequest(http.MethodGet, at, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")
	for range time.Tick(time.Second) {
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, res.Body)
		if err := errors.Join(err, res.Body.Close()); err != nil {
			return err
		}
	}
	return nil
}

// hang requests metrics on several connections, more than buffers hold, and never reads. It makes
// no further requests, so it uses no CPU time itself.
func hang(at string) error {
	u, err := url.Parse(at)
	if err != nil {
		return err
	}
	for range 8 {
		go func() {
			for {
				c, err := net.Dial("tcp", u.Host)
				for i := 0; i < 50 && err == nil; i++ {
					_, err = fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", u.Path)
				}
				time.Sleep(20 * time.Second) // the server has closed the connections by then
			}
		}()
	}
	select {}
}
