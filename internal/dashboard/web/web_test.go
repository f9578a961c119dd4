package web

import (
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// most is the maximum compressed size of the page, in bytes.
const most = 300_000

// The compressed page is smaller than 300 KB.
func TestPageIsSmall(t *testing.T) {
	total := 0
	for i := range parts {
		body, kind, ok := Asset(parts[i].path)
		if !ok || len(body) == 0 || kind == "" {
			t.Fatalf("%s: %d bytes of %q, %v", parts[i].path, len(body), kind, ok)
		}
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if _, err := z.Write(body); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d bytes, %d compressed", parts[i].path, len(body), b.Len())
		total += b.Len()
	}
	if total >= most {
		t.Errorf("the page has %d bytes compressed, %d or more", total, most)
	}
}

// Exactly the assets of the table are served.
func TestAssetsAreThoseOfTheTable(t *testing.T) {
	all, err := files.ReadDir("assets")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != len(parts) {
		t.Errorf("assets has %d files, the table %d", len(all), len(parts))
	}
	for _, path := range []string{"", "/assets/", "/assets/../web.go", "/index.html", "/assets/index.html"} {
		if _, _, ok := Asset(path); ok {
			t.Errorf("%q is served", path)
		}
	}
}

// elsewhere matches what would make a browser contact another host.
var elsewhere = regexp.MustCompile(`(?i)(src|href)="(https?:)?//|url\(\s*["']?(https?:|//)|@import|importScripts|\bnew Function\b|[^.\w]eval\(`)

// inline matches what the page's policy forbids in its text.
var inline = regexp.MustCompile(`(?i)<style|\sstyle=|\son\w+=|<script[^>]*>[^<]`)

// The page contacts no other host, and needs nothing that its policy forbids.
func TestPageAsksNobodyElse(t *testing.T) {
	for i := range parts {
		body, _, _ := Asset(parts[i].path)
		if found := elsewhere.Find(body); found != nil {
			t.Errorf("%s has %q", parts[i].path, found)
		}
	}
	body, _, _ := Asset("/")
	if found := inline.Find(body); found != nil {
		t.Errorf("the page has %q", found)
	}
}

// asHTML matches code that makes HTML of text.
var asHTML = regexp.MustCompile(`dangerouslySetInnerHTML|(inner|outer)HTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment`)

// Text is shown as text: no source makes HTML of it.
func TestNothingIsHTML(t *testing.T) {
	sources, err := filepath.Glob("src/*.ts*")
	if err != nil || len(sources) < 10 {
		t.Fatalf("%d sources: %v", len(sources), err)
	}
	for _, path := range sources {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if found := asHTML.Find(text); found != nil {
			t.Errorf("%s has %s", path, found)
		}
		if n := bytes.Count(text, []byte("\n")); n > 400 && !bytes.HasPrefix(text, []byte("// Code generated ")) {
			t.Errorf("%s has %d lines", path, n)
		}
	}
}

// A report is one file, with the answers in it and a policy that forbids all requests.
func TestReport(t *testing.T) {
	var b strings.Builder
	answers := `{"version":1,"answers":{"/api/v1/overview":{"node":"\u003c/script\u003e"}}}`
	if err := Report(&b, []byte(answers)); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, x := range []struct {
		text string
		want int
	}{
		{`id="ingero-answers">` + answers + `</script>`, 1},
		{`<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'sha256-`, 1},
		{`href="/assets`, 0}, {`src="/assets`, 0}, {`<style>`, 1}, {`<div id="page"></div>`, 1}, {`</body>`, 1}, {`</html>`, 1},
	} {
		if got := strings.Count(page, x.text); got != x.want {
			t.Errorf("%q is there %d times, not %d", x.text, got, x.want)
		}
	}
	script, _, _ := Asset("/assets/app.js")
	if !strings.Contains(page, "<script>"+string(script)+"</script>") || strings.Contains(string(script), "</script") {
		t.Error("the script is not whole in it")
	}
	if err := Report(&b, []byte(`{"x":"</script>"}`)); !errors.Is(err, errHTML) {
		t.Errorf("answers with tags in them: %v", err)
	}
}
