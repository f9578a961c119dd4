package dashboard

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// heard is what the server sent a client of updates.
type heard struct {
	http.ResponseWriter
	mu   sync.Mutex
	text strings.Builder
}

func (h *heard) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.Write(b)
}

func (h *heard) Flush() {}

func (h *heard) events() (all []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for line := range strings.Lines(h.text.String()) {
		if kind, ok := strings.CutPrefix(line, "event: "); ok {
			all = append(all, strings.TrimSpace(kind))
		}
	}
	return all
}

// A listener is greeted once the existing state is known, however long that takes. Later writes are
// reported, even of a new database.
func TestUpdatesBegin(t *testing.T) { synctest.Test(t, updatesBegin) }

func updatesBegin(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	looks := make(chan struct{})
	var asked atomic.Bool
	s := newServer(Options{Log: slog.New(slog.DiscardHandler), Now: time.Now, Path: func() string {
		if !asked.Swap(true) {
			<-looks
		}
		return path
	}})
	ctx, stop := context.WithCancel(t.Context())
	out := &heard{ResponseWriter: httptest.NewRecorder()}
	served := make(chan struct{})
	go func() {
		defer close(served)
		s.news.serve(out, httptest.NewRequest(http.MethodGet, updatesPath, nil).WithContext(ctx))
	}()
	synctest.Wait()
	if got := out.events(); len(got) > 0 {
		t.Errorf("before it has looked it says %q", got)
	}
	close(looks)
	synctest.Wait()
	if got := out.events(); len(got) != 1 || got[0] != "hello" {
		t.Errorf("it greets with %q", got)
	}
	database(t, path, "one")
	<-time.NewTimer(lookEvery).C // by the bubble's clock
	synctest.Wait()
	if got := out.events(); len(got) != 2 || got[1] != "data" {
		t.Errorf("of a new database it says %q", got)
	}
	stop()
	<-served
	s.news.end()
	s.open.end()
}
