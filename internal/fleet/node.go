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

// Options say whom to ask, and whom to trust.
type Options struct {
	Nodes   []string // "a:8080" (https), "http://a:8080"
	Token   string   // sent to each; empty: none
	CA      string   // path of certificates in PEM that sign those of the machines; empty: the machine's authorities
	Pins    []string // fingerprints of keys to trust, as [guard.Fingerprint] has them
	Timeout time.Duration
	Skew    time.Duration    // by which clocks may be off without a word
	Now     func() time.Time // nil: the clock's
}

// Error is options that cannot be used.
type Error struct{ What, Do string }

// Error returns both.
func (e *Error) Error() string { return e.What + ": " + e.Do }

// node is a machine as it was named.
type node struct {
	given string // "a:8080"
	base  *url.URL
	http  *http.Client
}

// Fleet is the machines to ask. Its methods are for one goroutine.
type Fleet struct {
	o     Options
	nodes []*node
	met   []*Machine
	notes []string
	slow  map[string]bool // machines that were told to be
}

// New returns the fleet of the options; its errors are of type *Error. It opens nothing.
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
			return nil, &Error{fmt.Sprintf("%.80q is no fingerprint", p), "ingero dashboard prints it: sha256: and 64 digits"}
		}
	}
	for _, text := range o.Nodes {
		n, err := parse(text)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(f.nodes, func(x *node) bool { return x.base.Host == n.base.Host }) {
			return nil, &Error{n.given + " is named twice", "leave one of them out"}
		}
		n.http = client(n, roots, o.Pins)
		f.nodes = append(f.nodes, n)
	}
	if len(f.nodes) > maxNodes {
		return nil, &Error{fmt.Sprintf("there are %d machines, and %d can be asked", len(f.nodes), maxNodes), "docs/guides/fleet.md says what is for more"}
	}
	return f, nil
}

var fingerprint = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// parse reads a machine's address.
func parse(text string) (*node, error) {
	wrong := &Error{fmt.Sprintf("%.80q is no machine to ask", text), "name it as gpu-7:8080 (https) or http://gpu-7:8080"}
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

// authorities reads certificates that sign others; nil: those of the machine.
func authorities(path string) (*x509.CertPool, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, &Error{"the certificates of --ca cannot be read: " + err.Error(), "name a file in PEM"}
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, &Error{path + " has no certificate in it", "--ca names a file in PEM"}
	}
	return pool, nil
}

// client makes the connection to a machine.
func client(n *node, roots *x509.CertPool, pins []string) *http.Client {
	config := &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, // in its place stands:
		VerifyConnection: func(s tls.ConnectionState) error { return trust(s.PeerCertificates, n.base.Hostname(), roots, pins) }}
	return &http.Client{
		Transport: &http.Transport{TLSClientConfig: config, DialContext: (&net.Dialer{Timeout: dialTime}).DialContext, MaxIdleConns: 1,
			DisableCompression: true, MaxResponseHeaderBytes: 64 << 10},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // another must not be sent the token
	}
}

// trustError is a certificate that is not trusted.
type trustError struct {
	leaf *x509.Certificate
	err  error
}

// Error says why.
func (e *trustError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *trustError) Unwrap() error { return e.err }

// trust says whether a machine is the one that was named: by its key, or by its name and
// who signed that.
func trust(certs []*x509.Certificate, host string, roots *x509.CertPool, pins []string) error {
	if len(certs) == 0 {
		return errors.New("there is no certificate")
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
