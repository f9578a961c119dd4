package testkit

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// JaegerServer is a real Jaeger, which is also an OpenTelemetry collector. It keeps spans, and
// prints metrics and log records to its standard error.
type JaegerServer struct {
	*Child
	GRPC, HTTP string // host:port of its receivers
	API        string // URL of its query API
}

const jaegerConfig = `service:
  extensions: [jaeger_storage, jaeger_query]
  pipelines:
    traces: {receivers: [otlp], exporters: [jaeger_storage_exporter]}
    metrics: {receivers: [otlp], exporters: [debug]}
    logs: {receivers: [otlp], exporters: [debug]}
  telemetry: {metrics: {level: none}, logs: {level: info}}
extensions:
  jaeger_storage: {backends: {memory: {memory: {max_traces: 100000}}}}
  jaeger_query: {storage: {traces: memory}, http: {endpoint: "127.0.0.1:%s"}, grpc: {endpoint: "127.0.0.1:%s"}}
receivers:
  otlp: {protocols: {grpc: {endpoint: "%s"}, http: {endpoint: "%s"}}}
exporters:
  jaeger_storage_exporter: {trace_storage: memory}
  debug: {verbosity: detailed}
`

// Jaeger starts the server that tools/jaeger.sh builds, and waits until it is ready.
func Jaeger(t testing.TB) *JaegerServer {
	t.Helper()
	program := jaegerProgram(t)
	api, own := FreePort(t), FreePort(t)
	s := &JaegerServer{GRPC: "127.0.0.1:" + FreePort(t), HTTP: "127.0.0.1:" + FreePort(t),
		API: "http://127.0.0.1:" + api}
	config := filepath.Join(t.TempDir(), "jaeger.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, jaegerConfig, api, own, s.GRPC, s.HTTP), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Child = Start(t, exec.Command(program, "--config", config))
	Eventually(t, "a Jaeger that is ready", func() bool {
		r, err := http.Get(s.API + "/api/services")
		if err != nil {
			return false
		}
		defer func() { _ = r.Body.Close() }()
		return r.StatusCode == http.StatusOK
	})
	return s
}

// JaegerValidate checks a collector's configuration without running it.
func JaegerValidate(t testing.TB, config string) error {
	t.Helper()
	cmd := exec.Command(jaegerProgram(t), "validate", "--config", config)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func jaegerProgram(t testing.TB) string {
	t.Helper()
	root, err := Repository()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(root, "bin", "jaeger", "jaeger")
	if _, err := os.Stat(program); err != nil {
		lack(t, "Jaeger (tools/jaeger.sh builds it)")
	}
	return program
}
