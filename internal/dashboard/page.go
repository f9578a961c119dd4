package dashboard

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"mime"
	"net/http"
	"strings"

	"ingero/internal/dashboard/web"
	"ingero/internal/guard"
)

// policy is the page's permissions: load its own script and style, and query this server.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// assets is the path prefix of the page's parts.
const assets = "/assets/"

// IsPage reports whether a request is for the page itself. The page is the same for everybody and
// has no data, so it needs no token, and other sites may link to it.
func IsPage(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && (r.URL.Path == "/" || strings.HasPrefix(r.URL.Path, assets))
}

// page sends the page or a part of it.
func (s *server) page(w http.ResponseWriter, r *http.Request) {
	if !IsPage(r) {
		w.Header().Set("Allow", http.MethodGet)
		guard.Refuse(w, http.StatusMethodNotAllowed, "the page supports only GET", "")
		return
	}
	body, kind, ok := web.Asset(r.URL.Path)
	if !ok {
		guard.Refuse(w, http.StatusNotFound, "there is no such path", "the page is at GET /")
		return
	}
	h := w.Header()
	sum := sha256.Sum256(body)
	tag := `"` + hex.EncodeToString(sum[:12]) + `"`
	h.Set("Content-Type", kind)
	h.Set("Content-Security-Policy", policy)
	h.Set("Cache-Control", "no-cache") // revalidated, mostly unchanged
	h.Set("ETag", tag)
	h.Set("Vary", "Accept-Encoding")
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if packed := s.packed(r, tag, body); packed != nil {
		h.Set("Content-Encoding", "gzip")
		body = packed
	}
	_, _ = w.Write(body) // the client may be gone
}

// packed returns the body compressed, cached; nil if the client does not accept that.
func (s *server) packed(r *http.Request, tag string, body []byte) []byte {
	if !takesGzip(r) {
		return nil
	}
	if b, ok := s.gzipped.Load(tag); ok {
		return b.([]byte)
	}
	b := pack(body)
	s.gzipped.Store(tag, b)
	return b
}

func pack(body []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(body) // to memory: cannot fail
	_ = z.Close()
	return b.Bytes()
}

// takesGzip reports whether the client accepts gzip.
func takesGzip(r *http.Request) bool {
	for word := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, params, err := mime.ParseMediaType(strings.TrimSpace(word))
		if err == nil && name == "gzip" && params["q"] != "0" {
			return true
		}
	}
	return false
}
