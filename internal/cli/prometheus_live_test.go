package cli

import (
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

	"ingero/internal/testkit"
)

// metricsOf waits for the line that says where a trace serves metrics, and returns the
// address.
func metricsOf(t *testing.T, c *testkit.Child) string {
	t.Helper()
	line := c.Line("Metrics: http://")
	address, says, _ := strings.Cut(strings.TrimPrefix(line, "Metrics: http://"), " ")
	if says != "(this machine only)" {
		t.Errorf("the line says %q", line)
	}
	return address
}

// get returns what a server answers.
func get(t *testing.T, url string) (code int, body string) {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

// prometheusServer is a real Prometheus that scrapes an address once a second.
type prometheusServer struct {
	t   *testing.T
	url string
}

func newPrometheus(t *testing.T, target, more string) *prometheusServer {
	t.Helper()
	testkit.NeedTool(t, "prometheus")
	dir := t.TempDir()
	port := testkit.FreePort(t)
	config := filepath.Join(dir, "prometheus.yml")
	text := "global: {scrape_interval: 1s, evaluation_interval: 1s}\nscrape_configs:\n- job_name: ingero\n  static_configs: [{targets: ['" + target + "']}]\n" + more
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &prometheusServer{t: t, url: "http://127.0.0.1:" + port}
	testkit.Start(t, exec.Command("prometheus", "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address=127.0.0.1:"+port, "--enable-feature=native-histograms,exemplar-storage", "--log.level=warn"))
	testkit.Eventually(t, "a Prometheus that is ready", func() bool {
		r, err := http.Get(p.url + "/-/ready")
		if err != nil {
			return false
		}
		defer func() { _ = r.Body.Close() }()
		return r.StatusCode == http.StatusOK
	})
	return p
}

// sample is one value of an answer.
type sample struct {
	Metric map[string]string `json:"metric"`
	Value  [2]any            `json:"value"`
}

func (s *sample) value() float64 {
	if text, ok := s.Value[1].(string); ok {
		if v, err := strconv.ParseFloat(text, 64); err == nil {
			return v
		}
	}
	return math.NaN()
}

// ask returns what an instant query gives; an error of Prometheus ends the test.
func (p *prometheusServer) ask(query string) []sample {
	p.t.Helper()
	code, body := get(p.t, p.url+"/api/v1/query?query="+url.QueryEscape(query))
	var answer struct {
		Status, Error string
		Data          struct{ Result []sample }
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || answer.Status != "success" {
		p.t.Fatalf("%s: %d, %v, %s", query, code, err, body)
	}
	return answer.Data.Result
}

// one returns the value of a query that has one; NaN: it has none yet.
func (p *prometheusServer) one(query string) float64 {
	p.t.Helper()
	if s := p.ask(query); len(s) == 1 {
		return s[0].value()
	}
	return math.NaN()
}

// exemplars returns the labels of the exemplars of a series in the last minutes.
func (p *prometheusServer) exemplars(query string) (out []map[string]string) {
	p.t.Helper()
	now := time.Now()
	code, body := get(p.t, fmt.Sprintf("%s/api/v1/query_exemplars?query=%s&start=%d&end=%d", p.url, url.QueryEscape(query), now.Add(-time.Hour).Unix(), now.Unix()+1))
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

// What a real Prometheus scrapes is what was traced: counts are exact, quantiles are those
// of ingero query, and the ledger adds up.
func TestPrometheus(t *testing.T) {
	b := newBench(t)
	testkit.NeedTool(t, "prometheus", "promtool")
	shell := testkit.Start(t, exec.Command("sh", "-c", `echo up; read x; "$0" --hold --steps 200; echo done; read y`, b.stack.Program("train")))
	shell.Line("up")
	c := b.ingero("trace", "--prometheus", ":0", "--pid", pid(shell))
	address := metricsOf(t, c)
	c.Line("sh (" + pid(shell) + ") has not loaded")
	p := newPrometheus(t, address, "")
	shell.Say("go")
	shell.Line("ready")
	testkit.Eventually(t, "probes", func() bool { s := b.tracing(2); return s.Libraries > 0 && !s.Processes[1].Attached.IsZero() })
	shell.Say("go")
	want := counts(t, shell)
	shell.Line("done")
	launches := float64(want["cudaLaunchKernel"])
	testkit.Eventually(t, "all launches", func() bool {
		return p.one(`gpu_cuda_operation_count_total{operation="cudaLaunchKernel"}`) == launches && p.one(`histogram_count(gpu_cuda_operation_duration_seconds{operation="cudaLaunchKernel"})`) == launches
	})

	code, text := get(t, "http://"+address+"/metrics")
	if code != http.StatusOK {
		t.Fatalf("%d: %s", code, text)
	}
	check := exec.Command("promtool", "check", "metrics")
	check.Stdin = strings.NewReader(text)
	if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if code, body := get(t, "http://"+address+path); code != http.StatusOK {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	shell.Say("end")
	if _, stderr, code := finish(t, c); code != 0 {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
