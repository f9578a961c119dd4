package prom

import (
	"bytes"
	"net/http"
	"sync"

	"ingero/internal/metric"
)

// mostPages is how many ways to ask are kept: format by compression, and a few more for
// those who word it otherwise.
const mostPages = 8

// pages are the answers of one tick, so that whoever asks again, or does not read, costs
// no more than the sending.
type pages struct {
	mu   sync.Mutex
	from *metric.Snapshot
	all  map[string]*page
}

// page is an answer. It is not changed any more.
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

// of returns the answer that h gives to a request, made once for all who ask so.
func (c *pages) of(now *metric.Snapshot, h http.Handler, r *http.Request) *page {
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

// send writes the answer.
func (p *page) send(w http.ResponseWriter) {
	for name, values := range p.header {
		w.Header()[name] = values
	}
	w.WriteHeader(p.code)
	_, _ = w.Write(p.body.Bytes()) // that the reader has gone is no error of the server's
}
