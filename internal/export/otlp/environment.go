package otlp

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Settings are the user's settings and the environment. Each setting overrides the standard's
// variables (OTEL_EXPORTER_OTLP_*) for the same option.
type Settings struct {
	// Endpoint is host:port or a URL. "env" is the variables' endpoint, or this machine's receiver.
	Endpoint string
	Spans    Spans
	Protocol Protocol            // empty: by the endpoint's port, or HTTP with protobuf
	Headers  string              // lines of "Name: value"
	CAFile   string              // file of trusted certificates
	Getenv   func(string) string // nil: no environment
}

// ByEnvironment is the endpoint that selects the variables' endpoint.
const ByEnvironment = "env"

const (
	defaultHTTP    = "http://localhost:4318"
	defaultGRPC    = "http://localhost:4317"
	defaultTimeout = 10 * time.Second
	maxHeaders     = 64
)

// Configure returns the options from settings and variables: Targets, Spans, Interval and Resource.
func Configure(s Settings) (Options, error) {
	if s.Getenv == nil {
		s.Getenv = func(string) string { return "" }
	}
	o := Options{Spans: s.Spans}
	for sig := range Signals {
		if sig == Traces && s.Spans == SpansOff || s.Getenv("OTEL_"+signalRows[sig].env+"_EXPORTER") == "none" {
			continue
		}
		t, err := s.target(sig)
		if err != nil {
			return Options{}, err
		}
		o.Targets[sig] = t
	}
	if ms := s.Getenv("OTEL_METRIC_EXPORT_INTERVAL"); ms != "" {
		d, err := milliseconds(ms)
		if err != nil {
			return Options{}, fmt.Errorf("OTEL_METRIC_EXPORT_INTERVAL: %w", err)
		}
		o.Interval = max(d, time.Second) // ticks are no more frequent
	}
	if p := s.Getenv("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"); p != "" && !strings.EqualFold(p, "cumulative") {
		return Options{}, fmt.Errorf("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE: %q is not supported: ingero sends cumulative metrics; use the cumulativetodelta processor of a collector to convert them", p)
	}
	o.Resource = pairs(s.Getenv("OTEL_RESOURCE_ATTRIBUTES"))
	if name := s.Getenv("OTEL_SERVICE_NAME"); name != "" {
		o.Resource = append(o.Resource, Attr{"service.name", name})
	}
	o.Resource = unique(o.Resource)
	return o, nil
}

// unique returns the last attribute of each key: OTEL_SERVICE_NAME overrides OTEL_RESOURCE_ATTRIBUTES. A
// resource with two attributes of one key is invalid.
func unique(list []Attr) (out []Attr) {
	for i, a := range list {
		if !slices.ContainsFunc(list[i+1:], func(b Attr) bool { return b.Key == a.Key }) {
			out = append(out, a)
		}
	}
	return out
}

// env returns the value of a variable for a signal, or for all signals.
func (s *Settings) env(sig Signal, name string) (value, variable string) {
	for _, v := range []string{"OTEL_EXPORTER_OTLP_" + signalRows[sig].env + "_" + name, "OTEL_EXPORTER_OTLP_" + name} {
		if value := s.Getenv(v); value != "" {
			return value, v
		}
	}
	return "", "OTEL_EXPORTER_OTLP_" + name
}

func (s *Settings) target(sig Signal) (t Target, err error) {
	if t.Protocol, err = s.protocol(sig); err != nil {
		return t, err
	}
	if t.URL, t.Protocol, err = s.url(sig, t.Protocol); err != nil {
		return t, err
	}
	if t.Header, err = s.headers(sig); err != nil {
		return t, err
	}
	t.Timeout = defaultTimeout
	if ms, name := s.env(sig, "TIMEOUT"); ms != "" {
		if t.Timeout, err = milliseconds(ms); err != nil {
			return t, fmt.Errorf("%s: %w", name, err)
		}
	}
	t.Gzip = !loopback(t.URL.Hostname()) // locally, it would cost more than it saves
	switch kind, name := s.env(sig, "COMPRESSION"); kind {
	case "":
	case "gzip", "none":
		t.Gzip = kind == "gzip"
	default:
		return t, fmt.Errorf("%s must be gzip or none, not %q", name, kind)
	}
	t.TLS, err = s.certificates(sig)
	return t, err
}

func (s *Settings) protocol(sig Signal) (Protocol, error) {
	if s.Protocol != "" {
		return s.Protocol, nil
	}
	text, name := s.env(sig, "PROTOCOL")
	switch p := Protocol(text); p {
	case "", HTTPProtobuf, HTTPJSON, GRPC:
		return p, nil
	}
	return "", fmt.Errorf("%s must be %s, %s or %s, not %q", name, HTTPProtobuf, HTTPJSON, GRPC, text)
}

// url returns the URL of a signal's requests, and the protocol if none was given: port 4317 is
// gRPC's.
func (s *Settings) url(sig Signal, p Protocol) (*url.URL, Protocol, error) {
	endpoint, name, whole := s.Endpoint, "--otlp", false
	if endpoint == ByEnvironment {
		name = "OTEL_EXPORTER_OTLP_" + signalRows[sig].env + "_ENDPOINT"
		if endpoint = s.Getenv(name); endpoint != "" {
			whole = true // unchanged: no path of the signal added
		} else if endpoint = s.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"); endpoint != "" {
			name = "OTEL_EXPORTER_OTLP_ENDPOINT"
		} else if endpoint = defaultHTTP; p == GRPC {
			endpoint = defaultGRPC
		}
	}
	u, err := parseEndpoint(endpoint, s.scheme(sig))
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", name, err)
	}
	if p == "" {
		if p = HTTPProtobuf; u.Port() == "4317" {
			p = GRPC
		}
	}
	if u.Port() == "" && u.Scheme == "http" && s.Endpoint != ByEnvironment {
		u.Host = net.JoinHostPort(u.Hostname(), map[bool]string{false: "4318", true: "4317"}[p == GRPC])
	}
	switch {
	case p == GRPC:
		u.Path = signalRows[sig].rpc
	case !whole:
		u.Path = strings.TrimSuffix(u.Path, "/") + "/" + signalRows[sig].path
	case u.Path == "":
		u.Path = "/"
	}
	return u, p, nil
}

// scheme returns the default scheme of an endpoint.
func (s *Settings) scheme(sig Signal) string {
	if insecure, _ := s.env(sig, "INSECURE"); strings.EqualFold(insecure, "false") {
		return "https"
	}
	return "http"
}

func parseEndpoint(text, scheme string) (*url.URL, error) {
	if !strings.Contains(text, "://") {
		text = scheme + "://" + text
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("it must be host:port or a URL such as https://collector:4318")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("it must begin with http:// or https://, not %s://", u.Scheme)
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, fmt.Errorf("invalid port %s", port)
		}
	}
	return u, nil
}

// headers returns the headers of each request: the variables', then the settings'.
func (s *Settings) headers(sig Signal) (http.Header, error) {
	h := http.Header{}
	set := func(name, value, from string) error {
		if !token(name) || strings.ContainsAny(value, "\r\n\x00") {
			return fmt.Errorf("%s: %q is not a header name", from, name)
		}
		if len(h) >= maxHeaders {
			return fmt.Errorf("%s: more than %d headers", from, maxHeaders)
		}
		h.Set(name, value)
		return nil
	}
	for _, from := range []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_" + signalRows[sig].env + "_HEADERS"} {
		for _, p := range pairs(s.Getenv(from)) {
			if err := set(p.Key, p.Value, from); err != nil {
				return nil, err
			}
		}
	}
	for i, line := range strings.Split(s.Headers, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return nil, fmt.Errorf("headers: line %d must be Name: value", i+1)
		}
		if err := set(strings.TrimSpace(name), strings.TrimSpace(value), "headers"); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// token reports whether s can be a header's name (RFC 9110).
func token(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

// certificates returns the trusted authorities and the client's certificate.
func (s *Settings) certificates(sig Signal) (*tls.Config, error) {
	ca, name := s.CAFile, "--otlp-ca-file"
	if ca == "" {
		ca, name = s.env(sig, "CERTIFICATE")
	}
	key, _ := s.env(sig, "CLIENT_KEY")
	cert, certName := s.env(sig, "CLIENT_CERTIFICATE")
	if ca == "" && key == "" && cert == "" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: %s contains no certificate", name, ca)
		}
	}
	if key != "" || cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("%s and its key: %w", certName, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// pairs parses k=v,k2=v2, with percent-encoded values (W3C Baggage). It skips invalid pairs.
func pairs(s string) (out []Attr) {
	for part := range strings.SplitSeq(s, ",") {
		k, v, ok := strings.Cut(part, "=")
		k, v = strings.TrimSpace(k), strings.TrimSpace(v)
		if plain, err := url.PathUnescape(v); err == nil {
			v = plain
		}
		if ok && k != "" {
			out = append(out, Attr{k, v})
		}
	}
	return out
}

func milliseconds(s string) (time.Duration, error) {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("it must be a positive number of milliseconds, not %q", s)
	}
	return time.Duration(n) * time.Millisecond, nil
}

// loopback reports whether a host name is this machine's loopback.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
