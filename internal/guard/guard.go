package guard

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"ingero/internal/wire"
)

// Options say which requests are allowed.
type Options struct {
	Names func(host string) bool // reports whether a Host is an address of the port
	Allow []string               // more allowed names
	Token string                 // token that each request must have; empty: none
	Certs *Certificates          // the server's; nil: no TLS
	// Public reports whether a request is for a resource without data. Such requests need no token,
	// and may be links on other sites' pages. nil: none.
	Public func(*http.Request) bool
}

// maxBody bounds the body of a request, in bytes.
const maxBody = 64 << 10

// Wrap returns a handler that passes allowed requests on to h, and answers the others with
// [Refuse].
func Wrap(h http.Handler, o Options) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head := w.Header()
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("X-Frame-Options", "DENY")
		head.Set("Cache-Control", "no-store")
		head.Set("Referrer-Policy", "no-referrer")
		head.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		head.Set("Cross-Origin-Resource-Policy", "same-origin")
		known := o.Token != "" && hasToken(r, o.Token)
		public := o.Public != nil && o.Public(r)
		switch {
		case !o.host(r.Host, known || public && o.Token != ""):
			Refuse(w, http.StatusForbidden, "the Host of the request is no name of this server", "start the server with --allow-host NAME, or ask for its address")
		case !o.origin(r) && !(public && r.Header.Get("Sec-Fetch-Mode") == "navigate"):
			Refuse(w, http.StatusForbidden, "the request comes from another site's page", "")
		case o.Token != "" && !known && !public:
			head.Set("WWW-Authenticate", `Bearer realm="ingero"`)
			Refuse(w, http.StatusUnauthorized, "the request needs the token", "send it: Authorization: Bearer TOKEN")
		default:
			r.Body = http.MaxBytesReader(w, r.Body, maxBody)
			h.ServeHTTP(w, r)
		}
	})
}

// Refuse answers a request with a [wire.Refusal]: the reason, and what to do, which may be empty.
func Refuse(w http.ResponseWriter, status int, why, do string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	b, _ := json.Marshal(wire.Refusal{Error: why, Do: do}) // strings only: cannot fail
	_, _ = w.Write(append(b, '\n'))                        // an error means that the client has gone
}

// host reports whether the Host is allowed. known is true with the token, and for public resources
// of a server with a token.
func (o *Options) host(host string, known bool) bool {
	if o.Names(host) {
		return true
	}
	name := bare(host)
	is := func(x string) bool { return name != "" && strings.EqualFold(x, name) }
	return slices.ContainsFunc(o.Allow, is) || known && o.Certs != nil && o.Certs.covers(name)
}

// bare returns a Host without its port.
func bare(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.TrimSuffix(strings.Trim(host, "[]"), ".")
}

// origin reports whether a request does not come from another site's page. A request that no page
// sent has no Origin.
func (o *Options) origin(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
	default:
		return false
	}
	from := r.Header.Values("Origin")
	if len(from) == 0 {
		return true
	}
	u, err := url.Parse(from[0])
	scheme := "https"
	if o.Certs == nil {
		scheme = "http"
	}
	return err == nil && len(from) == 1 && u.Scheme == scheme && strings.EqualFold(u.Host, r.Host)
}

// hasToken reports whether a request has the token, in constant time.
func hasToken(r *http.Request, token string) bool {
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	a, b := sha256.Sum256([]byte(strings.TrimSpace(given))), sha256.Sum256([]byte(token))
	return ok && subtle.ConstantTimeCompare(a[:], b[:]) == 1
}
