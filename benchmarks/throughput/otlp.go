package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"

	"ingero/internal/export/otlp"
	"ingero/internal/metric"
	"ingero/internal/tick"
)

// sendOTLP sends to this program, run with a flag, which drops everything. Without a flag it sends
// to an address without a server.
func sendOTLP(flag string, spans otlp.Spans) ([]tick.Sink, func() error, error) {
	to, stop := "127.0.0.1:1", func() error { return nil }
	if flag != "" {
		var err error
		if to, stop, err = startReceiver(flag); err != nil {
			return nil, nil, err
		}
	}
	o, err := otlp.Configure(otlp.Settings{Endpoint: to, Spans: spans})
	if err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	x, err := otlp.New(o)
	if err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	m := metric.New(metric.Options{Publish: x.Publish})
	return []tick.Sink{m, leftOpen{x}}, func() error {
		err := x.Close()
		for _, s := range x.State() {
			fmt.Printf("%10s %s: %d delivered, lost %v\n", "", s.Signal, s.Items, s.Lost)
		}
		return errors.Join(err, stop())
	}, nil
}

// leftOpen stays open in the session, and is closed after it.
type leftOpen struct{ *otlp.Exporter }

// Close implements [tick.Sink].
func (leftOpen) Close() error { return nil }

// startReceiver starts a receiver in a separate process. It returns its address, and the function
// that ends it.
func startReceiver(flag string) (address string, stop func() error, err error) {
	cmd := exec.Command("/proc/self/exe", flag)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	stop = func() error {
		err := cmd.Process.Kill()
		_ = cmd.Wait() // reports that it was killed
		return err
	}
	if err != nil {
		return "", nil, errors.Join(err, stop())
	}
	return line[:len(line)-1], stop, nil
}

// receive accepts OTLP requests and drops them. It prints its address.
func receive() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
}
