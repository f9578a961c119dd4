package fleet

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"ingero/internal/guard"
)

// Limits of a fleet.
const (
	maxNodes    = 64
	maxAnswer   = 64 << 20 // bytes
	maxCopy     = 2 << 30  // of a database
	dialTime    = 3 * time.Second
	defaultPort = "8080"
)

// Options configure the machines to query, and whom to trust.
type Options struct {
	Nodes   []string // "a:8080" (https), "http://a:8080"
	Token   string   // sent to each machine; empty: none
	CA      string   // PEM file of authorities for the machines; empty: the system's
	Pins    []string // fingerprints of trusted keys, as from [guard.Fingerprint]
	Timeout time.Duration
	Skew    time.Duration    // clock skew that is not reported
	Now     func() time.Time // nil: the machine's clock
}

// Error is about invalid options.
type Error struct{ What, Do string }

// Error returns both.
func (e *Error) Error() string { return e.What + ": " + e.Do }

// node is the address of a machine, as the user gave it.
type node struct {
	given string // "a:8080"
	base  *url.URL
	http  *http.Client
}

// Fleet is the machines to query. It is not safe for concurrent use.
type Fleet struct {
	o     Options
	nodes []*node
	met   []*Machine
	notes []string
	slow  map[string]bool // machines reported as slow
}

// New returns the fleet for the options; its errors are of type *Error. It opens nothing.
func New(o Options) (*Fleet, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	f := &Fleet{o: o, slow: map[string]bool{}}
	roots, err := authorities(o.CA)
	if err != nil {
		return nil, err
	}
	for _, p := range o.Pins {
		if !fingerprint.MatchString(p) {
			return nil, &Error{fmt.Sprintf("%.80q is not a fingerprint", p), "copy it from the output of ingero dashboard: sha256: and 64 hex digits"}
		}
	}
	for _, text := range o.Nodes {
		n, err := parse(text)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(f.nodes, func(x *node) bool { return x.base.Host == n.base.Host }) {
			return nil, &Error{n.given + " is listed twice", "remove one of them"}
		}
		n.http = client(n, roots, o.Pins)
		f.nodes = append(f.nodes, n)
	}
	if len(f.nodes) > maxNodes {
		return nil, &Error{fmt.Sprintf("%d nodes are listed; the limit is %d", len(f.nodes), maxNodes), "see docs/guides/fleet.md for larger fleets"}
	}
	return f, nil
}

var fingerprint = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// parse parses a machine's address.
func parse(text string) (*node, error) {
	wrong := &Error{fmt.Sprintf("%.80q is not a node address", text), "write gpu-7:8080 (https) or http://gpu-7:8080"}
	full := text
	if !strings.Contains(text, "://") {
		full = "https://" + text
	}
	u, err := url.Parse(full)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, wrong
	}
	if u.Port() == "" {
		u.Host = net.JoinHostPort(u.Hostname(), defaultPort)
	}
	return &node{given: strings.TrimPrefix(u.Host, "https://"), base: &url.URL{Scheme: u.Scheme, Host: strings.ToLower(u.Host)}}, nil
}

// authorities reads certificates of authorities; nil: the system's.
func authorities(path string) (*x509.CertPool, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, &Error{"cannot read the certificates of --ca: " + err.Error(), "name a PEM file"}
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, &Error{path + " contains no certificate", "name a PEM file with --ca"}
	}
	return pool, nil
}

// client returns an HTTP client for a machine.
func client(n *node, roots *x509.CertPool, pins []string) *http.Client {
	config := &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, // replaced by:
		VerifyConnection: func(s tls.ConnectionState) error { return trust(s.PeerCertificates, n.base.Hostname(), roots, pins) }}
	return &http.Client{
		Transport: &http.Transport{TLSClientConfig: config, DialContext: (&net.Dialer{Timeout: dialTime}).DialContext, MaxIdleConns: 1,
			DisableCompression: true, MaxResponseHeaderBytes: 64 << 10},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // another host must not get the token
	}
}

// trustError is about an untrusted certificate.
type trustError struct {
	leaf *x509.Certificate
	err  error
}

// Error returns the reason.
func (e *trustError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *trustError) Unwrap() error { return e.err }

// trust reports whether a machine is the one that was named: by its key, or by its name and its
// authority.
func trust(certs []*x509.Certificate, host string, roots *x509.CertPool, pins []string) error {
	if len(certs) == 0 {
		return errors.New("no certificate")
	}
	if slices.Contains(pins, guard.Fingerprint(certs[0])) {
		return nil
	}
	o := x509.VerifyOptions{DNSName: host, Roots: roots, Intermediates: x509.NewCertPool()}
	for _, c := range certs[1:] {
		o.Intermediates.AddCert(c)
	}
	if _, err := certs[0].Verify(o); err != nil {
		return &trustError{certs[0], err}
	}
	return nil
}
