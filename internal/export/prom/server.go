package prom

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"ingero/internal/listen"
	"ingero/internal/metric"
)

// Limits of clients.
const (
	mostConns  = 32
	readTime   = 5 * time.Second
	writeTime  = 15 * time.Second
	idleTime   = 2 * time.Minute
	closeTime  = time.Second
	mostHeader = 16 << 10
	// writeBuffer is the size of the kernel's buffer for an unread response, in bytes.
	writeBuffer = 256 << 10
)

// healthyFor is the maximum age of the last tick and of the last call of Alive: both come once a second.
const healthyFor = 10 * time.Second

// Server serves a source's metrics. It is safe for concurrent use.
type Server struct {
	source  func() *metric.Snapshot
	bound   *listen.Listener
	log     *slog.Logger
	http    http.Server
	conns   atomic.Int64
	done    chan struct{}
	began   time.Time
	now     func() time.Time
	alive   atomic.Pointer[time.Time] // last call of Alive; nil: none
	pages   pages
	closing sync.Once
}

// Serve starts serving what source returns, nil while there is nothing yet. The server owns the
// listener. log may be nil.
func Serve(l *listen.Listener, source func() *metric.Snapshot, log *slog.Logger) *Server {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &Server{source: source, bound: l, log: log, done: make(chan struct{}), began: time.Now(), now: time.Now}
	mux := http.NewServeMux()
	made := promhttp.HandlerFor(prometheus.GathererFunc(s.gather), promhttp.HandlerOpts{
		EnableOpenMetrics: true, OfferedCompressions: []promhttp.Compression{promhttp.Identity, promhttp.Gzip},
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) { s.pages.page(source(), made, r).send(w) })
	mux.HandleFunc("GET /healthz", s.healthz)
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.HandleFunc("GET /{$}", index)
	s.http = http.Server{
		Handler: s.known(mux), ReadHeaderTimeout: readTime, ReadTimeout: readTime, WriteTimeout: writeTime, IdleTimeout: idleTime,
		MaxHeaderBytes: mostHeader, ConnState: s.count, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	go func() {
		defer close(s.done)
		if err := s.http.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
			log.Warn("the metrics server stopped", "error", err)
		}
	}()
	return s
}

// URL returns the address of the metrics.
func (s *Server) URL() string { return "http://" + s.bound.Bound().String() + "/metrics" }

// Close gives requests a moment to end, and then closes their connections. It is idempotent.
func (s *Server) Close() error {
	var err error
	s.closing.Do(func() {
		ctx, stop := context.WithTimeout(context.Background(), closeTime)
		defer stop()
		if s.http.Shutdown(ctx) != nil {
			err = s.http.Close()
		}
		<-s.done
	})
	return err
}

// count closes connections beyond the limit, and bounds the kernel's buffers of the others.
func (s *Server) count(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if s.conns.Add(1) > mostConns {
			_ = c.Close()
		} else if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetWriteBuffer(writeBuffer) // else the kernel lets it grow
		}
	case http.StateClosed, http.StateHijacked:
		s.conns.Add(-1)
	}
}

// known rejects requests by other names than this machine's address, while the server is local. So
// a browser's page cannot reach it by a name of its own.
func (s *Server) known(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.bound.Local() && !s.bound.Names(r.Host) {
			http.Error(w, "this address accepts requests of this machine only", http.StatusForbidden)
			return
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		h.ServeHTTP(w, r)
	})
}

// gather renders the last tick's metrics.
func (s *Server) gather() ([]*dto.MetricFamily, error) {
	if now := s.source(); now != nil {
		return families(now), nil
	}
	return nil, nil
}

// Alive reports that the trace is alive although no tick comes: it waits for an output.
func (s *Server) Alive() {
	now := s.now()
	s.alive.Store(&now)
}

// healthz reports whether the trace is alive.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) {
	last := s.began.Add(readyWithin - healthyFor)
	if now := s.source(); now != nil {
		last = now.Taken
	}
	if at := s.alive.Load(); at != nil && at.After(last) {
		last = *at
	}
	if old := s.now().Sub(last); old > healthyFor {
		http.Error(w, fmt.Sprintf("the last tick was %s ago", old.Round(time.Second)), http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "ok\n")
}

// readyWithin is the maximum time until the first tick.
const readyWithin = time.Minute

// readyz reports whether there are metrics.
func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	if s.source() == nil {
		http.Error(w, "the trace has not started yet", http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "ready\n")
}

func index(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, "ingero: /metrics, /healthz, /readyz\n")
}
