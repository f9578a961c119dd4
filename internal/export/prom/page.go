package prom

import (
	"bytes"
	"net/http"
	"sync"

	"ingero/internal/metric"
)

// mostPages bounds the cached responses: format by compression, and a few other Accept headers.
const mostPages = 8

// pages are the responses of one tick, so that repeated scrapes and stalled clients cost only the
// sending.
type pages struct {
	mu   sync.Mutex
	from *metric.Snapshot
	all  map[string]*page
}

// page is an immutable response.
type page struct {
	code   int
	header http.Header
	body   bytes.Buffer
}

// Header implements [http.ResponseWriter].
func (p *page) Header() http.Header { return p.header }

// WriteHeader implements [http.ResponseWriter].
func (p *page) WriteHeader(code int) { p.code = code }

// Write implements [http.ResponseWriter].
func (p *page) Write(b []byte) (int, error) { return p.body.Write(b) }

// page returns h's response to a request, computed once for all equal requests.
func (c *pages) page(now *metric.Snapshot, h http.Handler, r *http.Request) *page {
	key := r.URL.RawQuery + "\n" + r.Header.Get("Accept") + "\n" + r.Header.Get("Accept-Encoding")
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.from != now || c.all == nil {
		c.from, c.all = now, map[string]*page{}
	}
	p := c.all[key]
	if p == nil {
		p = &page{code: http.StatusOK, header: http.Header{}}
		h.ServeHTTP(p, r)
		if len(c.all) < mostPages {
			c.all[key] = p
		}
	}
	return p
}

// send writes the response.
func (p *page) send(w http.ResponseWriter) {
	for name, values := range p.header {
		w.Header()[name] = values
	}
	w.WriteHeader(p.code)
	_, _ = w.Write(p.body.Bytes()) // the client may be gone
}
