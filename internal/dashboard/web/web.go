// Package web has the page of the dashboard: one script and one style, which are embedded.
package web

import "io"

const index = `<!doctype html><html lang="en"><meta charset="utf-8"><title>ingero</title><h1>ingero</h1><p>The read API is at /api/v1.</p></html>`

// Asset returns a part of the page by its path, "/" the page itself, and its content type.
func Asset(path string) (body []byte, contentType string, ok bool) {
	if path != "/" {
		return nil, "", false
	}
	return []byte(index), "text/html; charset=utf-8", true
}

// Report writes the page as one file that holds answers (JSON) and asks nothing.
func Report(w io.Writer, answers []byte) error {
	_, err := io.WriteString(w, index+`<script type="application/json" id="ingero-answers">`+string(answers)+"</script>")
	return err
}
