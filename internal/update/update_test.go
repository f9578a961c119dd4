package update

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// checker returns a Checker for a server with the handler h.
func checker(t *testing.T, h http.HandlerFunc) *Checker {
	t.Helper()
	s := httptest.NewTLSServer(h)
	t.Cleanup(s.Close)
	path := filepath.Join(t.TempDir(), "update-check")
	return &Checker{URL: s.URL + "/latest", Version: "1.2.3", Client: s.Client(), Now: func() time.Time { return noon },
		File: func() (*os.File, error) { return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) }}
}

// was stores an answer in the file.
func (c *Checker) was(t *testing.T, text string) {
	t.Helper()
	f, err := c.File()
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

func says(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }
}

// A newer release is reported from the stored answer, and requested once a day.
func TestNewer(t *testing.T) {
	asked := 0
	c := checker(t, func(w http.ResponseWriter, _ *http.Request) {
		asked++
		fmt.Fprint(w, `{"tag_name": "v1.10.0", "draft": false, "prerelease": false, "assets": []}`)
	})
	now := noon
	c.Now = func() time.Time { return now }
	for _, x := range []struct {
		name  string
		after time.Duration
		want  string
		ask   bool
	}{
		{"never asked", 0, "", true},
		{"asked", time.Minute, "1.10.0", false},
		{"a day later", 24 * time.Hour, "1.10.0", true},
		{"a clock that was ahead", -30 * time.Hour, "1.10.0", true},
	} {
		now = now.Add(x.after)
		got, ask := c.Newer()
		if got != x.want || ask != x.ask {
			t.Errorf("%s: %q, ask %v", x.name, got, ask)
		}
		if ask {
			if err := c.Fetch(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if asked != 3 {
		t.Errorf("asked %d times", asked)
	}
}

func TestVersions(t *testing.T) {
	for _, x := range []struct {
		newest, version string
		want            bool
	}{
		{"1.2.4", "1.2.3", true}, {"1.3.0", "1.2.9", true}, {"2.0.0", "1.9.9", true}, {"1.10.0", "1.9.0", true},
		{"1.2.3", "1.2.3", false}, {"1.2.2", "1.2.3", false}, {"", "1.2.3", false}, {"1.2.4", "v1.2.3", true}, {"1.2.4", "1.2.3-4-gabc", false},
	} {
		if got := newer(x.newest, x.version); got != x.want {
			t.Errorf("%s after %s: %v", x.newest, x.version, got)
		}
	}
	for version, want := range map[string]bool{"v1.2.3": true, "0.9.0": true, "dev": false, "": false, "v0.0.0": false, "v1.2.3-4-gabcdef": false, "1.2": false} {
		if Released(version) != want {
			t.Errorf("%q is released: %v", version, !want)
		}
	}
}

// An invalid answer is ignored, and the stored one stays. Either way there is one request.
func TestHostileAnswers(t *testing.T) {
	good := `{"tag_name":"v9.9.9"}`
	for name, h := range map[string]http.HandlerFunc{
		"huge": func(w http.ResponseWriter, _ *http.Request) {
			for range 3 << 10 {
				if _, err := fmt.Fprint(w, strings.Repeat(" ", 1024)); err != nil {
					return
				}
			}
			fmt.Fprint(w, good)
		},
		"no JSON":            says("<html>"),
		"nothing":            says(""),
		"control characters": says(`{"tag_name":"v9.9.9\u001b[2J"}`),
		"a sentence":         says(`{"tag_name":"run: curl evil | sh"}`),
		"large numbers":      says(`{"tag_name":"v99999999999999999999.0.0"}`),
		"another kind":       says(`{"tag_name":["v9.9.9"]}`),
		"a draft":            says(`{"tag_name":"v9.9.9","draft":true}`),
		"before its release": says(`{"tag_name":"v9.9.9","prerelease":true}`),
		"an error":           func(w http.ResponseWriter, _ *http.Request) { http.Error(w, good, http.StatusTooManyRequests) },
		"elsewhere": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://127.0.0.2:1/x", http.StatusFound)
		},
		"without TLS": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://"+r.Host+"/x", http.StatusFound)
		},
		"round in circles": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) },
		"cut off": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "500")
			fmt.Fprint(w, good)
		},
		"closed without word": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			c := checker(t, h)
			c.was(t, `{"asked":"2026-04-29T12:00:00Z","newest":"1.2.4"}`)
			if err := c.Fetch(t.Context()); err == nil {
				t.Error("it is taken for an answer")
			}
			if got, ask := c.Newer(); got != "1.2.4" || ask {
				t.Errorf("%q, ask again %v", got, ask)
			}
		})
	}
}

// A server that does not answer is abandoned when the command ends, and asked again later.
func TestSlowAnswer(t *testing.T) {
	came := make(chan struct{})
	c := checker(t, func(_ http.ResponseWriter, r *http.Request) { close(came); <-r.Context().Done() })
	ctx, stop := context.WithCancel(t.Context())
	go func() { <-came; stop() }()
	if err := c.Fetch(ctx); err == nil {
		t.Error("it is taken for an answer")
	}
	for after, want := range map[time.Duration]bool{0: false, 59 * time.Minute: false, time.Hour: true} {
		c.Now = func() time.Time { return noon.Add(after) }
		if _, ask := c.Newer(); ask != want {
			t.Errorf("after %v it is asked: %v", after, ask)
		}
	}
}

// The request is a GET with the program's name and version, and nothing else.
func TestNothingIsSent(t *testing.T) {
	var got *http.Request
	c := checker(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Clone(t.Context())
		fmt.Fprint(w, `{"tag_name":"v1.2.3"}`)
	})
	if err := c.Fetch(t.Context()); err != nil {
		t.Fatal(err)
	}
	allowed := map[string]string{"User-Agent": "ingero/1.2.3", "Accept": "application/json", "Accept-Encoding": "gzip"}
	for name, values := range got.Header {
		if len(values) != 1 || allowed[name] != values[0] {
			t.Errorf("%s: %q", name, values)
		}
	}
	if got.Method != http.MethodGet || got.URL.String() != "/latest" || got.ContentLength != 0 {
		t.Errorf("%s %s, %d bytes", got.Method, got.URL, got.ContentLength)
	}
}

// A file with other content holds no answer. Without a writable file there is no request.
func TestHostileFile(t *testing.T) {
	c := checker(t, says(`{"tag_name":"v1.2.4"}`))
	c.was(t, `{"newest":"9.9.9\u001b[2J","asked":"2026-05-01T11:00:00Z"}`)
	if got, ask := c.Newer(); got != "" || ask {
		t.Errorf("%q, ask %v", got, ask)
	}
	c.was(t, strings.Repeat("x", 1<<20))
	if got, ask := c.Newer(); got != "" || !ask {
		t.Errorf("%q, ask %v", got, ask)
	}
	if err := c.Fetch(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, _ := c.Newer(); got != "1.2.4" {
		t.Errorf("%q", got)
	}
	c.File = func() (*os.File, error) { return nil, os.ErrPermission }
	if got, ask := c.Newer(); got != "" || ask || c.Fetch(t.Context()) == nil {
		t.Errorf("without a file: %q, ask %v", got, ask)
	}
}
