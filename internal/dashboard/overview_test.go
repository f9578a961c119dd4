package dashboard

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ingero/internal/explain"
	"ingero/internal/query"
	"ingero/internal/store"
	"ingero/internal/store/segment"
	"ingero/internal/tick"
)

// ask sends a request to a path of the API and returns the status.
func ask(ctx context.Context, s *server, method, path string, body io.Reader) int {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(method, path, body).WithContext(ctx)
	r.Header.Set("Content-Type", "application/json")
	i := slices.IndexFunc(Paths, func(p Path) bool { return p.Path == path })
	s.serve(&Paths[i])(w, r)
	return w.Code
}

// recorder returns a database with a session, and its recorder.
func recorder(t *testing.T) (path string, write func(...tick.Chain)) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "x.db")
	started := time.Now()
	db, err := store.Open(store.Options{Path: path, Session: segment.Session{ID: "one", Started: started}, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	seq := uint64(0)
	return path, func(chains ...tick.Chain) {
		t.Helper()
		seq++
		if err := db.Tick(&tick.Tick{Time: time.Now(), Started: started, Seq: seq, Chains: chains}); err != nil {
			t.Fatal(err)
		}
	}
}

// started tells when a body has been read.
type started struct {
	*strings.Reader
	read chan struct{}
	once sync.Once
}

func (s *started) Read(b []byte) (int, error) {
	if s.Len() == 0 {
		s.once.Do(func() { close(s.read) })
	}
	return s.Reader.Read(b)
}

// Pages are answered while a user's statement runs.
func TestPagesDoNotWaitForStatements(t *testing.T) {
	path, write := recorder(t)
	write()
	s := newServer(Options{Log: slog.New(slog.DiscardHandler), Now: time.Now, Path: func() string { return path }})
	defer s.open.end()
	ctx, cancel := context.WithCancel(t.Context())
	body := &started{Reader: strings.NewReader(`{"sql": "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c) SELECT count(*) FROM c", "timeout_ms": 30000}`), read: make(chan struct{})}
	var running sync.WaitGroup
	running.Go(func() { ask(ctx, s, http.MethodPost, "/api/v1/query", body) })
	<-body.read
	for range 5 {
		for _, path := range []string{"/api/v1/overview", "/api/v1/capabilities", "/api/v1/recordings"} {
			if status := ask(t.Context(), s, http.MethodGet, path, nil); status != http.StatusOK {
				t.Errorf("%s: status %d", path, status)
			}
		}
	}
	cancel()
	running.Wait()
}

// Clients that request the overview after the same update share one. It is computed again after the
// next update, and after a while, since a killed recorder writes nothing.
func TestOverviewIsShared(t *testing.T) {
	path, write := recorder(t)
	cause := tick.Chain{ID: "c-1", Rule: "cpu-taken", Severity: tick.High, PID: 1, From: time.Now(), To: time.Now()}
	write(cause)
	var now atomic.Int64
	var reports atomic.Int32
	s := newServer(Options{Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return time.Unix(now.Load(), 0) }, Path: func() string { return path },
		Report: func(context.Context, *query.Reader, *Question) (*explain.Input, error) {
			reports.Add(1)
			return nil, query.ErrNoSession
		}})
	defer s.open.end()
	clients := func() int32 {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if status := ask(t.Context(), s, http.MethodGet, "/api/v1/overview", nil); status != http.StatusOK {
					t.Errorf("status %d", status)
				}
			})
		}
		all.Wait()
		return reports.Swap(0)
	}
	once := clients()
	if once < 1 || once > 2 { // of a minute, and of an hour
		t.Errorf("8 clients made %d reports", once)
	}
	if n := clients(); n != 0 {
		t.Errorf("without an update, 8 clients made %d reports", n)
	}
	write(cause)
	if n := clients(); n != once {
		t.Errorf("after an update, 8 clients made %d reports, want %d", n, once)
	}
	now.Add(int64(lookEvery / time.Second))
	if n := clients(); n != once {
		t.Errorf("after a while, 8 clients made %d reports, want %d", n, once)
	}
}
