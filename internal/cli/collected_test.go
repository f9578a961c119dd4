package cli

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// collected is an OpenTelemetry receiver and a ClickHouse server that collect call counts.
type collected struct {
	*httptest.Server
	t       *testing.T
	mu      sync.Mutex
	last    []byte // latest metrics
	rollups []byte // rows in RowBinary
}

func newCollected(t *testing.T) *collected {
	t.Helper()
	c := &collected{t: t}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

// ServeHTTP implements [http.Handler].
func (c *collected) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	from := io.Reader(q.Body)
	if q.Header.Get("Content-Encoding") == "gzip" {
		packed, err := gzip.NewReader(q.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		from = packed
	}
	body, err := io.ReadAll(from)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case q.URL.Path == "/v1/metrics":
		c.last = body
	case strings.HasPrefix(q.URL.Query().Get("query"), "INSERT INTO `ingero`.rollups "):
		c.rollups = append(c.rollups, body...)
	}
}

// metrics returns the counts of the latest metrics.
func (c *collected) metrics() map[string]uint64 {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	var all struct {
		ResourceMetrics []struct {
			ScopeMetrics []struct {
				Metrics []struct {
					Name string
					Sum  struct {
						DataPoints []struct {
							Attributes []struct {
								Key   string
								Value struct{ StringValue string }
							}
							AsDouble float64
						}
					}
				}
			}
		}
	}
	if err := json.Unmarshal(c.last, &all); err != nil {
		c.t.Fatalf("%v in %.300q", err, c.last)
	}
	out := map[string]uint64{}
	for _, r := range all.ResourceMetrics {
		for _, s := range r.ScopeMetrics {
			for _, m := range s.Metrics {
				for _, p := range m.Sum.DataPoints {
					for _, a := range p.Attributes {
						if m.Name == "gpu.cuda.operation.count" && a.Key == "operation" {
							out[a.Value.StringValue] += uint64(p.AsDouble)
						}
					}
				}
			}
		}
	}
	return out
}

var promCount = regexp.MustCompile(`(?m)^gpu_cuda_operation_count_total\{[^}]*operation="([^"]+)"[^}]*\} ([0-9.e+]+)`)

// opsOfPrometheus returns the counts that a trace serves.
func opsOfPrometheus(t *testing.T, address string) map[string]uint64 {
	t.Helper()
	_, text := get(t, "http://"+address+"/metrics")
	out := map[string]uint64{}
	for _, m := range promCount.FindAllStringSubmatch(text, -1) {
		n, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		out[m[1]] += uint64(n)
	}
	return out
}

// opsOfClickHouse copies the recording to the server and returns the counts of its rollups.
func (b *bench) opsOfClickHouse(c *collected) map[string]uint64 {
	b.t.Helper()
	if _, stderr, code := b.output("export", "--format", "clickhouse", "-o", c.URL); code != 0 {
		b.t.Fatalf("export: %d, %s", code, stderr)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r := bytes.NewReader(c.rollups)
	length := func() int {
		n, err := binary.ReadUvarint(r)
		if err != nil {
			b.t.Fatal(err)
		}
		return int(n)
	}
	take := func(n int) []byte {
		out := make([]byte, n)
		if _, err := io.ReadFull(r, out); err != nil {
			b.t.Fatal(err)
		}
		return out
	}
	out := map[string]uint64{}
	for r.Len() > 0 { // the columns of the table rollups
		_, _ = take(length()), take(length()) // session, node
		_ = take(8)                           // start, pid
		op := string(take(length()))
		out[op] += binary.LittleEndian.Uint64(take(8))
		_ = take(10 * 8) // done to max_ns
		for range 2 {    // buckets
			_ = take(8 * length())
		}
	}
	return out
}
