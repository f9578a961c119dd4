package testkit

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Prometheus is a real Prometheus server, with native histograms and exemplars.
type Prometheus struct {
	t   testing.TB
	url string
}

// PrometheusOptions configure a server. Zero fields get defaults.
type PrometheusOptions struct {
	Target string        // scraped; "": only what Config has
	Every  time.Duration // between two scrapes, and two evaluations of rules; 0: 1 s
	Config string        // appended to the configuration
}

// NewPrometheus starts a server for the length of the test. It also accepts remote writes at
// RemoteWrite.
func NewPrometheus(t testing.TB, o PrometheusOptions) *Prometheus {
	t.Helper()
	NeedTool(t, "prometheus")
	dir := t.TempDir()
	port := FreePort(t)
	config := filepath.Join(dir, "prometheus.yml")
	every := cmp.Or(o.Every, time.Second)
	text := fmt.Sprintf("global: {scrape_interval: %s, scrape_timeout: %[1]s, evaluation_interval: %[1]s}\n%s", every, o.Config)
	if o.Target != "" {
		text += "scrape_configs:\n- job_name: ingero\n  static_configs: [{targets: ['" + o.Target + "']}]\n"
	}
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &Prometheus{t: t, url: "http://127.0.0.1:" + port}
	Start(t, exec.Command("prometheus", "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address=127.0.0.1:"+port, "--enable-feature=native-histograms,exemplar-storage", "--web.enable-remote-write-receiver", "--log.level=warn"))
	Eventually(t, "a Prometheus that is ready", func() bool {
		r, err := http.Get(p.url + "/-/ready")
		if err != nil {
			return false
		}
		defer func() { _ = r.Body.Close() }()
		return r.StatusCode == http.StatusOK
	})
	return p
}

// RemoteWrite returns the URL for remote writes.
func (p *Prometheus) RemoteWrite() string { return p.url + "/api/v1/write" }

// Sample is one value of an answer.
type Sample struct {
	Metric map[string]string `json:"metric"`
	Value  [2]any            `json:"value"`
}

// Number returns the value.
func (s *Sample) Number() float64 {
	if text, ok := s.Value[1].(string); ok {
		if v, err := strconv.ParseFloat(text, 64); err == nil {
			return v
		}
	}
	return math.NaN()
}

// Query returns the result of an instant query. An error of Prometheus ends the test.
func (p *Prometheus) Query(query string) []Sample {
	p.t.Helper()
	code, body := p.get(p.url + "/api/v1/query?query=" + url.QueryEscape(query))
	var answer struct {
		Status, Error string
		Data          struct{ Result []Sample }
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || answer.Status != "success" {
		p.t.Fatalf("%s: %d, %v, %s", query, code, err, body)
	}
	return answer.Data.Result
}

// Range makes a query over the last minutes, as a panel of a dashboard does, and reports whether it
// ended within a limit. Another error of Prometheus ends the test.
func (p *Prometheus) Range(query string, length, step, limit time.Duration) (ended bool) {
	p.t.Helper()
	now := time.Now()
	code, body := p.get(fmt.Sprintf("%s/api/v1/query_range?query=%s&start=%d&end=%d&step=%g&timeout=%s", p.url, url.QueryEscape(query), now.Add(-length).Unix(), now.Unix(), step.Seconds(), limit))
	if code != http.StatusOK && code != http.StatusServiceUnavailable {
		p.t.Fatalf("%s: %d, %s", query, code, body)
	}
	return code == http.StatusOK
}

// One returns the only value of a query, NaN if it has none yet.
func (p *Prometheus) One(query string) float64 {
	p.t.Helper()
	if s := p.Query(query); len(s) == 1 {
		return s[0].Number()
	}
	return math.NaN()
}

// Own returns the sum of a metric's samples in the server's metrics about itself.
func (p *Prometheus) Own(name string) (sum float64) {
	p.t.Helper()
	_, body := p.get(p.url + "/metrics")
	for line := range strings.Lines(body) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), name)
		if !ok || !strings.HasPrefix(rest, "{") && !strings.HasPrefix(rest, " ") {
			continue
		}
		v, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err != nil {
			p.t.Fatalf("%s: %v", line, err)
		}
		sum += v
	}
	return sum
}

// Exemplars returns the labels of a series' exemplars in the last minutes.
func (p *Prometheus) Exemplars(query string) (out []map[string]string) {
	p.t.Helper()
	now := time.Now()
	code, body := p.get(fmt.Sprintf("%s/api/v1/query_exemplars?query=%s&start=%d&end=%d", p.url, url.QueryEscape(query), now.Add(-time.Hour).Unix(), now.Unix()+1))
	var answer struct {
		Data []struct {
			Exemplars []struct{ Labels map[string]string }
		}
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || code != http.StatusOK {
		p.t.Fatalf("%d, %v, %s", code, err, body)
	}
	for i := range answer.Data {
		for _, e := range answer.Data[i].Exemplars {
			out = append(out, e.Labels)
		}
	}
	return out
}

func (p *Prometheus) get(url string) (code int, body string) {
	p.t.Helper()
	r, err := http.Get(url)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return r.StatusCode, string(b)
}
