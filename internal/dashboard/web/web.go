// Package web embeds the dashboard's page: one script and one style. tools/web.sh builds them from
// src, and they are checked in, so that Go alone builds the binary. Package dashboard serves them;
// [Report] makes a file of them.
package web

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"errors"
	"io"
	"strings"
)

//go:embed assets
var files embed.FS

// asset is a part of the page.
type asset struct {
	path, file, contentType string
}

var parts = []asset{
	{"/", "index.html", "text/html; charset=utf-8"},
	{"/assets/app.js", "app.js", "text/javascript; charset=utf-8"},
	{"/assets/app.css", "app.css", "text/css; charset=utf-8"},
	{"/assets/icon.svg", "icon.svg", "image/svg+xml"},
}

// Asset returns a part of the page by its path, "/" for the page itself, and its content type.
func Asset(path string) (body []byte, contentType string, ok bool) {
	for i := range parts {
		if parts[i].path == path {
			return read(parts[i].file), parts[i].contentType, true
		}
	}
	return nil, "", false
}

// read returns an embedded file, which must exist.
func read(name string) []byte {
	b, err := files.ReadFile("assets/" + name)
	if err != nil {
		panic(err) // the build embeds them all
	}
	return b
}

// Placeholders in index.html that a report replaces.
const (
	iconAt   = `<link rel="icon" href="/assets/icon.svg" type="image/svg+xml">`
	styleAt  = `<link rel="stylesheet" href="/assets/app.css">`
	scriptAt = `<script src="/assets/app.js" defer></script>`
	bodyEnd  = `</body>`
)

// errHTML means that the answers would end their HTML element.
var errHTML = errors.New("the answers have < in them: they must be JSON with it escaped")

// Report writes the page as one self-contained file with answers: JSON with <, > and & escaped. The
// file's own policy permits only its script and its style, each identified by its hash.
func Report(w io.Writer, answers []byte) error {
	if strings.ContainsAny(string(answers), "<>") {
		return errHTML
	}
	page, script, style := string(read("index.html")), string(read("app.js")), string(read("app.css"))
	policy := `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src ` + hash(script) + `; style-src ` + hash(style) +
		`; base-uri 'none'; form-action 'none'">`
	page, end, ok := strings.Cut(page, bodyEnd)
	if !ok {
		return errors.New("the page has no end")
	}
	head := strings.NewReplacer(iconAt, policy, styleAt, "<style>"+style+"</style>", scriptAt+"\n", "").Replace(page)
	for _, text := range []string{head, `<script type="application/json" id="ingero-answers">`, string(answers), "</script>\n<script>", script, "</script>\n", bodyEnd, end} {
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
	}
	return nil
}

// hash returns a text's hash as a policy writes it.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
