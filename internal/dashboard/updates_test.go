package dashboard

import (
	"context"
	"database/sql"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ingero/internal/store"
	"ingero/internal/store/segment"
	"ingero/internal/tick"
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

// listen is a client of the server's updates. end ends it, and the server.
func listen(t *testing.T, s *server) (out *heard, end func()) {
	ctx, stop := context.WithCancel(t.Context())
	out = &heard{ResponseWriter: httptest.NewRecorder()}
	served := make(chan struct{})
	go func() {
		defer close(served)
		s.news.serve(out, httptest.NewRequest(http.MethodGet, updatesPath, nil).WithContext(ctx))
	}()
	return out, func() {
		stop()
		<-served
		s.news.end()
		s.open.end()
	}
}

// A recorder that was killed no longer counts as recording, though nobody writes that down.
func TestRecorderIsKilled(t *testing.T) { synctest.Test(t, recorderIsKilled) }

func recorderIsKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	db, err := store.Open(store.Options{Path: path, Session: segment.Session{ID: "one", Started: time.Now()}, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Tick(&tick.Tick{Time: time.Now(), Started: time.Now(), Seq: 1}); err != nil {
		t.Fatal(err)
	}
	s := newServer(Options{Log: slog.New(slog.DiscardHandler), Now: time.Now, Path: func() string { return path }})
	ask := func(path string) string {
		w := httptest.NewRecorder()
		i := slices.IndexFunc(Paths, func(p Path) bool { return p.Path == path })
		s.serve(&Paths[i])(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Body.String()
	}
	states := func() (recording, running bool) {
		return strings.Contains(ask("/api/v1/overview"), `"recording":true`), strings.Contains(ask("/api/v1/recordings"), `"state":"running"`)
	}
	out, end := listen(t, s)
	pass := func(d time.Duration) {
		<-time.NewTimer(d).C // by the bubble's clock
		synctest.Wait()
	}
	pass(time.Hour) // nothing is written meanwhile
	if recording, running := states(); !recording || !running || len(out.events()) != 1 {
		t.Errorf("before: recording %v, running %v, events %q", recording, running, out.events())
	}
	lock := filepath.Join(store.LogDir(path), "writer")
	if err := os.Rename(lock, lock+".old"); err != nil { // as if its holder had been killed
		t.Fatal(err)
	}
	if err := os.WriteFile(lock, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	pass(time.Minute)
	if recording, running := states(); recording || running || len(out.events()) != 2 {
		t.Errorf("after: recording %v, running %v, events %q", recording, running, out.events())
	}
	end()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// Causes that can no longer change are not read again: damage to one stops no news of others.
func TestUpdatesReadRecentChains(t *testing.T) { synctest.Test(t, updatesReadRecentChains) }

func updatesReadRecentChains(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	started := time.Now()
	db, err := store.Open(store.Options{Path: path, Session: segment.Session{ID: "one", Started: started}, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	seq := uint64(0)
	write := func(chains ...tick.Chain) {
		seq++
		if err := db.Tick(&tick.Tick{Time: time.Now(), Started: started, Seq: seq, Chains: chains}); err != nil {
			t.Fatal(err)
		}
	}
	write(tick.Chain{ID: "c-1", Rule: "cpu-taken", Severity: tick.High, PID: 1, From: started, To: started})
	<-time.NewTimer(2 * tick.ChainStays).C // by the bubble's clock
	write()
	s := newServer(Options{Log: slog.New(slog.DiscardHandler), Now: time.Now, Path: func() string { return path }})
	out, end := listen(t, s)
	synctest.Wait()
	lite, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lite.Exec("UPDATE chains SET culprits = '?' WHERE id = 'c-1'"); err != nil {
		t.Fatal(err)
	}
	if err := lite.Close(); err != nil {
		t.Fatal(err)
	}
	write(tick.Chain{ID: "c-2", Rule: "cpu-taken", Severity: tick.High, PID: 1, From: time.Now(), To: time.Now()})
	<-time.NewTimer(lookEvery).C
	synctest.Wait()
	if got := out.events(); len(got) != 2 || got[1] != "chain" {
		t.Errorf("heard %q, want the new cause", got)
	}
	end()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
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
	out, end := listen(t, s)
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
	end()
}
