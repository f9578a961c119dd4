package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ingero/internal/testkit"
)

// Only some commands of a release check for a newer one, unless disabled, and none waits for the
// answer: the next command announces it on a terminal.
func TestNews(t *testing.T) {
	for _, x := range []struct {
		name    string
		command string
		version string
		env     map[string]string
		file    string // of settings
		asks    bool
	}{
		{name: "check", command: "check", asks: true},
		{name: "explain", command: "explain", asks: true},
		{name: "query", command: "query"},
		{name: "version", command: "version"},
		{name: "config", command: "config check"},
		{name: "no", command: "explain", env: map[string]string{"INGERO_NO_UPDATE_NOTIFIER": "1"}},
		{name: "a package", command: "explain", file: "update-check: false\n"},
		{name: "a variable", command: "explain", env: map[string]string{"INGERO_UPDATE_CHECK": "false"}},
		{name: "a build", command: "explain", version: "v1.2.3-4-gabcdef"},
		{name: "no version", command: "explain", version: "dev"},
	} {
		t.Run(x.name, func(t *testing.T) {
			var asked atomic.Int32
			s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				asked.Add(1)
				fmt.Fprint(w, `{"tag_name":"v9.9.9"}`)
			}))
			defer s.Close()
			home := t.TempDir()
			env := map[string]string{"HOME": home, "TERM": "xterm", "INGERO_DB": filepath.Join(home, "x.db")}
			for k, v := range x.env {
				env[k] = v
			}
			if x.file != "" {
				env["INGERO_CONFIG"] = filepath.Join(home, "f.yaml")
				if err := os.WriteFile(env["INGERO_CONFIG"], []byte(x.file), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			terminal := testkit.NewTerminal(t)
			null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = null.Close() }()
			e := Env{Args: strings.Fields(x.command), Stdin: null, Stdout: null, Stderr: terminal.Side, Getenv: func(k string) string { return env[k] },
				Build: Build{Version: orElse(x.version, "v1.2.3")}, Lock: testPlace(t), releases: s.URL, client: s.Client()}
			if x.asks { // as after an earlier answer
				keepAnswer(t, filepath.Join(home, ".ingero", "update-check"))
			}
			const news = "ingero: 9.9.9 is available, this is 1.2.3: https://github.com/ingero-io/ingero/releases"
			if x.asks { // a command does not wait for the file: a later one reads it
				testkit.Eventually(t, "the news", func() bool {
					e.run(t.Context())
					_, _ = fmt.Fprintln(terminal.Side, "the end")
					return strings.Contains(terminal.Until("the end"), news)
				})
			} else {
				e.run(t.Context())
				_, _ = fmt.Fprintln(terminal.Side, "the end")
				if text := terminal.Until("the end"); strings.Contains(text, "9.9.9") {
					t.Errorf("it says %q", text)
				}
			}
			if n := asked.Load(); n != 0 {
				t.Errorf("the server was asked %d times", n)
			}
			if _, err := os.Stat(filepath.Join(home, ".ingero", "update-check")); (err == nil) != x.asks {
				t.Errorf("the answer is kept: %v", err)
			}
		})
	}
}

// keepAnswer writes the file in which commands save the release server's answer.
func keepAnswer(t *testing.T, path string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, []byte(`{"newest":"9.9.9","asked":"`+time.Now().Format(time.RFC3339)+`"}`), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A command ends even if the release server never answers.
func TestNewsDelayNothing(t *testing.T) {
	came := make(chan struct{})
	s := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { close(came); <-r.Context().Done() }))
	defer s.Close()
	home := t.TempDir()
	e := &Env{Getenv: func(k string) string { return map[string]string{"HOME": home}[k] }, Build: Build{Version: "v1.2.3"}, releases: s.URL, client: s.Client()}
	c, _, err := e.root().Find([]string{"explain"})
	if err != nil {
		t.Fatal(err)
	}
	n := e.checkForUpdate(t.Context(), c)
	<-came
	n.print(e) // the server never answers
	<-n.done
}
