package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ingero/internal/testkit"
)

// listener is a client of /api/v1/updates.
type listener struct {
	t     *testing.T
	lines *bufio.Scanner
	close func() error
}

// listen subscribes to updates, or returns the status of the rejection.
func (s *served) listen() (*listener, int) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, s.url+"/api/v1/updates", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	res, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK {
		_ = res.Body.Close()
		return nil, res.StatusCode
	}
	if kind := res.Header.Get("Content-Type"); kind != "text/event-stream" {
		s.t.Errorf("updates are %q", kind)
	}
	return &listener{s.t, bufio.NewScanner(res.Body), res.Body.Close}, res.StatusCode
}

// next returns the next event of one of the kinds, or "" at the end of the stream.
func (l *listener) next(kinds ...string) (kind string, data map[string]any) {
	l.t.Helper()
	for l.lines.Scan() {
		line := l.lines.Text()
		if k, ok := strings.CutPrefix(line, "event: "); ok {
			kind = k
			continue
		}
		text, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		for _, want := range kinds {
			if kind == want {
				if err := json.Unmarshal([]byte(text), &data); err != nil {
					l.t.Fatalf("%s: %v", line, err)
				}
				return kind, data
			}
		}
	}
	return "", nil
}

// A listener receives new data and causes; the stream ends with the server.
func TestDashboardUpdates(t *testing.T) {
	testkit.LeakCheck(t)
	db := filepath.Join(t.TempDir(), "x.db")
	x, err := startFixture(db, "gpu-7-one", "gpu-7", began)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = x.db.Close() }()
	if err := x.second(); err != nil {
		t.Fatal(err)
	}
	var l *listener
	t.Run("while it serves", func(t *testing.T) {
		s := serve(t, db, atTheEnd, nil, "--addr", ":0", "--no-tls")
		l, _ = s.listen()
		if _, hello := l.next("hello"); hello["recording"] != true || hello["session"] != "gpu-7-one" || hello["to_ms"] != 1795185661000.0 {
			t.Errorf("hello %v", hello)
		}
		x.lost = 300 * time.Millisecond
		recorded := make(chan error, 1)
		go func() { recorded <- x.second() }()
		kind, data := l.next("chain", "data")
		if kind == "data" { // sent before the cause was written: the cause is next
			kind, data = l.next("chain")
		}
		if kind != "chain" || data["change"] != "appeared" || data["id"] != "c-1" || data["severity"] != "HIGH" || data["comm"] != "train.py" {
			t.Errorf("%s %v, want the cause", kind, data)
		}
		if err := <-recorded; err != nil {
			t.Fatal(err)
		}
		if err := x.end(); err != nil {
			t.Fatal(err)
		}
		for ended := false; !ended; {
			kind, data := l.next("data", "chain")
			if kind == "" {
				t.Fatal("the stream ended before the recording")
			}
			ended = kind == "data" && data["recording"] == false
		}
	})
	if kind, _ := l.next("end"); kind != "end" {
		t.Error("the stream was cut off")
	}
	_ = l.close()
}

// The number of listeners is limited; they take no place from other requests.
func TestDashboardListenersAreBounded(t *testing.T) {
	testkit.LeakCheck(t)
	s := serve(t, testDB(t), atTheEnd, nil, "--addr", ":0", "--no-tls")
	var all []*listener
	for range 32 {
		l, status := s.listen()
		if l == nil {
			t.Fatalf("listener %d: %d", len(all), status)
		}
		l.next("hello")
		all = append(all, l)
	}
	if _, status := s.listen(); status != http.StatusServiceUnavailable {
		t.Errorf("one more: %d", status)
	}
	if status, text := s.ask("GET", "/api/v1/overview", "", nil); status != 200 {
		t.Errorf("a question: %d %s", status, text)
	}
	if err := all[0].close(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the place of one who has gone is free", func() bool {
		l, _ := s.listen()
		if l != nil {
			_ = l.close()
		}
		return l != nil
	})
	for _, l := range all[1:] {
		_ = l.close()
	}
}
