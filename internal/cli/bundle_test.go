package cli

import (
	"archive/tar"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ingero/internal/testkit"
	"ingero/internal/wire"
)

// A support bundle has exactly the listed files, contains no secret from any source, and replaces
// no file.
func TestSupportBundle(t *testing.T) {
	dir := t.TempDir()
	env := map[string]string{
		"HOME": dir, "INGERO_DB": filepath.Join(dir, "x.db"), "INGERO_NOTIFY": "https://hooks.example.com/x/" + secret, "INGERO_TOKEN": secret,
		"INGERO_CLICKHOUSE": "http://u:" + secret + "@h:8123", "INGERO_OTLP": "https://h/?key=" + secret,
	}
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	e := &Env{Getenv: func(k string) string { return env[k] }, Stdout: out, Stderr: out, Build: Build{Version: "v1.2.3"}, Lock: testPlace(t)}
	l, err := e.Lock.Acquire(wire.Holder{Since: time.Now(), Command: "ingero trace --notify https://hooks.example.com/" + secret})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Release() }()
	if err := l.Publish(wire.TraceState{Updated: time.Now(), Exports: []wire.Export{{Name: "webhook", To: "https://hooks.example.com/" + secret}}}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "support.tar.gz")
	if err := e.supportBundle(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	files := untar(t, path)
	var names []string
	for _, b := range bundle {
		names = append(names, "ingero-support/"+b.name)
		if !strings.Contains(files["ingero-support/contents.txt"], b.name) {
			t.Errorf("%s is not listed", b.name)
		}
	}
	for name, text := range files {
		if strings.Contains(text, secret) {
			t.Errorf("%s has the secret:\n%s", name, text)
		}
		if name != "ingero-support/contents.txt" && !slices.Contains(names, name) || text == "" {
			t.Errorf("%s: %q", name, text)
		}
		if strings.HasSuffix(name, ".json") && !strings.HasPrefix(text, "not available: ") && !json.Valid([]byte(text)) {
			t.Errorf("%s is no JSON:\n%s", name, text)
		}
	}
	for name, want := range map[string]string{"check.txt": "Kernel", "version.txt": "ingero v1.2.3", "config.json": "INGERO_NOTIFY", "status.json": `"running": `,
		"database.json": "not available: ", "contents.txt": "config.json"} {
		if !strings.Contains(files["ingero-support/"+name], want) {
			t.Errorf("%s lacks %q:\n%s", name, want, files["ingero-support/"+name])
		}
	}
	if err := e.supportBundle(t.Context(), path); err == nil {
		t.Error("a file is replaced")
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

func untar(t *testing.T, path string) map[string]string {
	t.Helper()
	files := map[string]string{}
	testkit.Untar(t, path, func(h *tar.Header, content []byte) { files[h.Name] = string(content) })
	return files
}

// A bundle's log has its possible secrets redacted.
func TestBundleIsClean(t *testing.T) {
	got := clean("  a  b\n\t--hf-token " + secret + " x\nPOST https://me:" + secret + "@h/x\nlast")
	if want := "  a  b\n\t--hf-token *** x\nPOST https://***@h/x\nlast"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
