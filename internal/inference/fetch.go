package inference

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

const (
	// maxBytes bounds a response, maxLine one of its lines, and maxSeries the series that are used.
	maxBytes  = 4 << 20
	maxLine   = 64 << 10
	maxSeries = 20_000
	// maxLabels bounds the labels of a series: the time of the parser grows with their square. Series of
	// known servers have fewer than ten.
	maxLabels = 32
	// loopback is the name in URLs of both loopback addresses.
	loopback = "localhost"
)

// Reasons why metrics cannot be read.
var (
	errTooLong    = errors.New("the response is longer than 4 MiB")
	errLabels     = errors.New("the response has a series with more than 32 labels")
	errCompressed = errors.New("the server compressed the response, which ingero does not request")
	errNoMetrics  = errors.New("the response has none of the server's metrics")
	errNotText    = errors.New("the response is not in the text format of Prometheus")
	errEnded      = errors.New("the server has ended")
	errNamespace  = errors.New("ingero cannot enter the server's network namespace")
)

// statusError is an HTTP status other than 200.
type statusError int

func (e statusError) Error() string {
	return fmt.Sprintf("the server answered with HTTP status %d", int(e))
}

// client returns a client that connects to the target only: directly, each time anew, and without
// following redirects.
func (t *target) client(timeout time.Duration) *http.Client {
	transport := &http.Transport{DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxLine}
	if t.namespace != 0 {
		transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			return dialIn(ctx, t.namespace, address)
		}
	}
	return &http.Client{Transport: transport, Timeout: timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// read reads the metrics once. It returns the engine that they are of.
func (t *target) read(ctx context.Context, client *http.Client) (s *state, engine string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, t.url, http.NoBody)
	if err != nil {
		return nil, t.engine, err
	}
	request.Header.Set("Accept", "text/plain; version=0.0.4")
	request.Header.Set("User-Agent", "ingero")
	response, err := client.Do(request)
	if err != nil {
		return nil, t.engine, err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	switch {
	case response.StatusCode != http.StatusOK:
		return nil, t.engine, statusError(response.StatusCode)
	case response.Header.Get("Content-Encoding") != "":
		return nil, t.engine, errCompressed
	}
	return t.parse(response.Body)
}

// parse parses a response. If the target's engine is unknown, it is the one with most of the
// metrics.
func (t *target) parse(body io.Reader) (best *state, engine string, err error) {
	candidates := servers
	if s := serverOf(t.engine); s != nil {
		candidates = []server{*s}
	}
	text, err := used(body, candidates)
	if err != nil {
		return nil, t.engine, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, t.engine, errNotText
	}
	for i := range candidates {
		s := candidates[i].state(families)
		if n := s.size(); n > 0 && (best == nil || n > best.size()) {
			best, engine = s, candidates[i].engine
		}
	}
	if best == nil {
		return nil, t.engine, errNoMetrics
	}
	return best, engine, nil
}

// size returns how many values are known.
func (s *state) size() int { return len(s.numbers) + len(s.durations) }

// used returns the lines of a response that are about metrics of servers, so that a response takes
// little memory and time.
func used(body io.Reader, servers []server) ([]byte, error) {
	wanted := map[string]bool{}
	for i := range servers {
		for _, names := range servers[i].names {
			for _, n := range names {
				wanted[n.metric] = true
			}
		}
	}
	limited := &io.LimitedReader{R: body, N: maxBytes + 1}
	lines := bufio.NewScanner(limited)
	lines.Buffer(nil, maxLine)
	var out []byte
	for n := 0; lines.Scan(); {
		line := lines.Bytes()
		if name := nameIn(line); !wanted[name] && !wanted[family(name)] {
			continue
		}
		if n++; n > maxSeries {
			return nil, errTooLong
		}
		if bytes.Count(line, []byte("=")) > maxLabels {
			return nil, errLabels
		}
		out = append(append(out, line...), '\n')
	}
	switch err := lines.Err(); {
	case limited.N == 0:
		return nil, errTooLong
	case errors.Is(err, bufio.ErrTooLong):
		return nil, errNotText
	default:
		return out, err
	}
}

// nameIn returns the name of the metric that a line is about: of a series, or of a type.
func nameIn(line []byte) string {
	text := string(bytes.TrimSpace(line))
	if rest, found := strings.CutPrefix(text, "# TYPE "); found {
		text = strings.TrimSpace(rest)
	}
	if end := strings.IndexAny(text, "{ \t"); end > 0 {
		text = text[:end]
	}
	return text
}

// family returns the name of the histogram that has a series.
func family(name string) string {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, found := strings.CutSuffix(name, suffix); found {
			return base
		}
	}
	return name
}

// explain returns why a read failed, and a remedy.
func (t *target) explain(err error, timeout time.Duration) (why, do string) {
	remedy := ""
	if s := serverOf(t.engine); s != nil {
		remedy = s.remedy
	}
	var status statusError
	switch {
	case errors.As(err, &status):
		switch int(status) {
		case http.StatusNotFound, http.StatusNotImplemented:
			return err.Error() + ": it does not serve metrics", remedy
		case http.StatusUnauthorized, http.StatusForbidden:
			return err.Error() + ": it requires a key, and ingero sends none", ""
		}
		return err.Error(), ""
	case errors.Is(err, errNamespace):
		return errNamespace.Error(), "run ingero as root with CAP_SYS_ADMIN and CAP_SYS_PTRACE, or set --inference-metrics-url"
	case errors.Is(err, errNoMetrics), errors.Is(err, errNotText):
		return reason(err), remedy
	case errors.Is(err, errTooLong), errors.Is(err, errLabels), errors.Is(err, errCompressed):
		return reason(err), ""
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens on the port of the metrics", "wait until the server has loaded its model; if it uses another address, set --inference-metrics-url"
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("the server did not answer completely within %s", timeout), ""
	}
	return "the server does not answer with HTTP", ""
}

// reason returns the text of the reason, without text from the server.
func reason(err error) string {
	for _, known := range []error{errNoMetrics, errNotText, errTooLong, errLabels, errCompressed} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return err.Error()
}
