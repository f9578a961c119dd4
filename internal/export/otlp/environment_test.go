package otlp

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func env(pairs ...string) func(string) string {
	m := map[string]string{}
	for i := 0; i+1 < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return func(name string) string { return m[name] }
}

// The endpoint of traces follows from settings and the standard's variables.
func TestConfigureEndpoint(t *testing.T) {
	const all, one = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	const protocol = "OTEL_EXPORTER_OTLP_PROTOCOL"
	for _, tt := range []struct {
		name     string
		s        Settings
		url      string // of traces
		protocol Protocol
		gzip     bool
	}{
		{"host and port", Settings{Endpoint: "localhost:4318"}, "http://localhost:4318/v1/traces", HTTPProtobuf, false},
		{"host", Settings{Endpoint: "collector"}, "http://collector:4318/v1/traces", HTTPProtobuf, true},
		{"host, gRPC", Settings{Endpoint: "collector", Protocol: GRPC}, "http://collector:4317" + signalRows[Traces].rpc, GRPC, true},
		{"gRPC's port", Settings{Endpoint: "[::1]:4317"}, "http://[::1]:4317" + signalRows[Traces].rpc, GRPC, false},
		{"gRPC's port, another protocol", Settings{Endpoint: "127.0.0.1:4317", Protocol: HTTPJSON}, "http://127.0.0.1:4317/v1/traces", HTTPJSON, false},
		{"URL", Settings{Endpoint: "https://a.example/otlp/"}, "https://a.example/otlp/v1/traces", HTTPProtobuf, true},
		{"URL of gRPC", Settings{Endpoint: "https://a.example:443", Protocol: GRPC}, "https://a.example:443" + signalRows[Traces].rpc, GRPC, true},
		{"variables, none", Settings{Endpoint: ByEnvironment}, "http://localhost:4318/v1/traces", HTTPProtobuf, false},
		{"variables, gRPC", Settings{Endpoint: ByEnvironment, Getenv: env(protocol, "grpc")}, "http://localhost:4317" + signalRows[Traces].rpc, GRPC, false},
		{"variables, JSON", Settings{Endpoint: ByEnvironment, Getenv: env(protocol, "http/json")}, "http://localhost:4318/v1/traces", HTTPJSON, false},
		{"variable for all", Settings{Endpoint: ByEnvironment, Getenv: env(all, "https://b.example/x")}, "https://b.example/x/v1/traces", HTTPProtobuf, true},
		{"variable for traces is whole", Settings{Endpoint: ByEnvironment, Getenv: env(all, "https://b.example", one, "https://c.example/t")}, "https://c.example/t", HTTPProtobuf, true},
		{"settings outrank variables", Settings{Endpoint: "d:1", Protocol: HTTPProtobuf, Getenv: env(all, "https://b.example", one, "https://c.example/t", protocol, "grpc")}, "http://d:1/v1/traces", HTTPProtobuf, true},
		{"not in clear", Settings{Endpoint: "e:1", Getenv: env("OTEL_EXPORTER_OTLP_INSECURE", "false")}, "https://e:1/v1/traces", HTTPProtobuf, true},
		{"compression", Settings{Endpoint: "localhost:1", Getenv: env("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "gzip")}, "http://localhost:1/v1/traces", HTTPProtobuf, true},
		{"no compression", Settings{Endpoint: "f:1", Getenv: env("OTEL_EXPORTER_OTLP_COMPRESSION", "none")}, "http://f:1/v1/traces", HTTPProtobuf, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o, err := Configure(tt.s)
			if err != nil {
				t.Fatal(err)
			}
			to := o.Targets[Traces]
			if to.URL.String() != tt.url || to.Protocol != tt.protocol || to.Gzip != tt.gzip || to.Timeout != 10*time.Second {
				t.Errorf("got %s by %s, gzip %v, %s; want %s by %s, gzip %v", to.URL, to.Protocol, to.Gzip, to.Timeout, tt.url, tt.protocol, tt.gzip)
			}
		})
	}
}

// Errors name the setting or the variable.
func TestConfigureErrors(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.pem")
	if err := os.WriteFile(bad, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		s    Settings
		says string
	}{
		{"no host", Settings{Endpoint: ":4318"}, "--otlp"},
		{"another scheme", Settings{Endpoint: "ftp://a"}, "http:// or https://"},
		{"a password", Settings{Endpoint: "https://a:b@c"}, "--otlp"},
		{"a port that is none", Settings{Endpoint: "a:99999"}, "99999"},
		{"a variable", Settings{Endpoint: ByEnvironment, Getenv: env("OTEL_EXPORTER_OTLP_ENDPOINT", "%zz")}, "OTEL_EXPORTER_OTLP_ENDPOINT"},
		{"protocol", Settings{Endpoint: "a", Getenv: env("OTEL_EXPORTER_OTLP_PROTOCOL", "smoke")}, "OTEL_EXPORTER_OTLP_PROTOCOL"},
		{"timeout", Settings{Endpoint: "a", Getenv: env("OTEL_EXPORTER_OTLP_LOGS_TIMEOUT", "1s")}, "OTEL_EXPORTER_OTLP_LOGS_TIMEOUT"},
		{"compression", Settings{Endpoint: "a", Getenv: env("OTEL_EXPORTER_OTLP_COMPRESSION", "zip")}, "gzip or none"},
		{"interval", Settings{Endpoint: "a", Getenv: env("OTEL_METRIC_EXPORT_INTERVAL", "0")}, "OTEL_METRIC_EXPORT_INTERVAL"},
		{"differences", Settings{Endpoint: "a", Getenv: env("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "delta")}, "cumulative"},
		{"no certificate", Settings{Endpoint: "a", CAFile: bad}, "no certificate"},
		{"no such certificate", Settings{Endpoint: "a", Getenv: env("OTEL_EXPORTER_OTLP_CERTIFICATE", bad+"x")}, "OTEL_EXPORTER_OTLP_CERTIFICATE"},
		{"key without certificate", Settings{Endpoint: "a", Getenv: env("OTEL_EXPORTER_OTLP_CLIENT_KEY", bad)}, "CLIENT_CERTIFICATE"},
		{"header without value", Settings{Endpoint: "a", Headers: "# mine\n\nToken"}, "line 3"},
		{"header that is none", Settings{Endpoint: "a", Headers: "a b: c"}, `"a b"`},
		{"two headers in one", Settings{Endpoint: "a", Getenv: env("OTEL_EXPORTER_OTLP_HEADERS", "a=b%0d%0ac: d")}, "OTEL_EXPORTER_OTLP_HEADERS"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Configure(tt.s); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v, want one of %s", err, tt.says)
			}
		})
	}
}

// Headers, timeouts, intervals and attributes come from the variables; a signal's own override the
// common ones.
func TestConfigureVariables(t *testing.T) {
	o, err := Configure(Settings{Endpoint: "a", Headers: "X-Scope-OrgID: me\n", Getenv: env(
		"OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Basic%20Zm9v,x-scope-orgid=you", "OTEL_EXPORTER_OTLP_TRACES_HEADERS", "authorization=Bearer t",
		"OTEL_EXPORTER_OTLP_TIMEOUT", "2000", "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "3000", "OTEL_METRIC_EXPORT_INTERVAL", "30000",
		"OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=prod,bad,k%3D=v%2C", "OTEL_SERVICE_NAME", "gpu", "OTEL_LOGS_EXPORTER", "none")})
	if err != nil {
		t.Fatal(err)
	}
	if h := o.Targets[Traces].Header; h.Get("Authorization") != "Bearer t" || h.Get("X-Scope-OrgID") != "me" {
		t.Errorf("headers of traces: %v", h)
	}
	if h := o.Targets[Metrics].Header; h.Get("Authorization") != "Basic Zm9v" {
		t.Errorf("headers of metrics: %v", h)
	}
	if o.Targets[Traces].Timeout != 2*time.Second || o.Targets[Metrics].Timeout != 3*time.Second || o.Interval != 30*time.Second {
		t.Errorf("times %s, %s, %s", o.Targets[Traces].Timeout, o.Targets[Metrics].Timeout, o.Interval)
	}
	if to := o.Targets[Metrics]; !to.Clear() {
		t.Error("headers in clear are not noticed")
	}
	if o.Targets[Logs].URL != nil {
		t.Error("logs are not off")
	}
	want := []Attr{{"deployment.environment.name", "prod"}, {"k%3D", "v,"}, {"service.name", "gpu"}}
	if len(o.Resource) != 3 || o.Resource[0] != want[0] || o.Resource[1] != want[1] || o.Resource[2] != want[2] {
		t.Errorf("attributes %v", o.Resource)
	}
	o, err = Configure(Settings{Endpoint: "a", Getenv: env("OTEL_RESOURCE_ATTRIBUTES", "service.name=a,host.name=h,team=x,team=y", "OTEL_SERVICE_NAME", "gpu")})
	if err != nil || !slices.Equal(o.Resource, []Attr{{"host.name", "h"}, {"team", "y"}, {"service.name", "gpu"}}) {
		t.Errorf("attributes with repeated keys: %v, %v", o.Resource, err)
	}
	if o, err := Configure(Settings{Endpoint: "a", Spans: SpansOff}); err != nil || o.Targets[Traces].URL != nil || o.Targets[Metrics].URL == nil {
		t.Errorf("traces are not off alone: %v", err)
	}
}
