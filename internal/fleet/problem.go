package fleet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"

	"ingero/internal/guard"
)

// Problem is a machine without an answer, and the reason.
type Problem struct {
	Node     string // its name, or its address
	What, Do string // one line each; Do may be empty
	Status   int    // HTTP status; 0: no response
	Err      error
}

// String returns both lines as one.
func (p *Problem) String() string {
	s := p.Node + " " + p.What
	if p.Do != "" {
		s += " (" + p.Do + ")"
	}
	return s
}

// statusError is an error response.
type statusError struct {
	status   int
	what, do string
}

// Error returns the machine's message.
func (e *statusError) Error() string { return fmt.Sprintf("%d: %s", e.status, e.what) }

// errAnswer means that the answer is not in ingero's format.
var errAnswer = errors.New("the answer is not in ingero's format")

// errLarge means that the answer exceeds its limit.
var errLarge = errors.New("the answer is too large")

// problem describes why a machine gave no answer.
func (f *Fleet) problem(n *node, name string, err error) Problem {
	p := Problem{Node: name, Err: err}
	if p.Node == "" {
		p.Node = n.given
	}
	var refused *statusError
	var untrusted *trustError
	var timeout net.Error
	var dns *net.DNSError
	switch {
	case errors.As(err, &refused):
		p.Status = refused.status
		p.What, p.Do = f.refused(n, refused)
	case errors.As(err, &untrusted):
		p.What, p.Do = untrustedWords(n, untrusted)
	case isPlain(err):
		p.What, p.Do = "serves without TLS", "use http://"+n.base.Host+", or start it without --no-tls"
	case isOld(err):
		p.What, p.Do = "does not support TLS 1.3", "check that the address is that of ingero dashboard"
	case errors.As(err, &dns):
		p.What, p.Do = "cannot be resolved", "use its IP address, or fix the name in DNS"
	case errors.Is(err, syscall.ECONNREFUSED):
		p.What, p.Do = "refused the connection: nothing listens on the port", "run there: ingero dashboard --addr 0.0.0.0:"+n.base.Port()+" --token-file FILE"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		p.What = "is unreachable from this machine"
	case errors.Is(err, context.Canceled):
		p.What = "did not answer before the command was cancelled"
	case isUnreachable(err):
		p.What, p.Do = "is unreachable: the connection timed out", "check that the machine is up and that no firewall blocks port "+n.base.Port()
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		p.What, p.Do = "did not answer within "+f.o.Timeout.String(), "if it is only slow, raise --node-timeout"
	case errors.Is(err, errLarge):
		p.What, p.Do = "sent an answer that is too large", "narrow the query, such as with a shorter --since"
	case errors.Is(err, errAnswer):
		p.What, p.Do = "sent an answer that is not in ingero's format", "check that it runs ingero dashboard of this version or later"
	default:
		p.What = "cannot be queried: " + printable(err.Error(), 200)
	}
	return p
}

// refused describes a machine's refusal.
func (f *Fleet) refused(n *node, e *statusError) (what, do string) {
	switch {
	case e.status == http.StatusUnauthorized && f.o.Token == "":
		return "requires a bearer token", "set --token-file FILE or INGERO_TOKEN"
	case e.status == http.StatusUnauthorized:
		return "rejected the bearer token", "use the token file that it was started with: --token-file FILE"
	case e.status == http.StatusBadRequest && n.base.Scheme == "http" && strings.Contains(e.what, "HTTPS server"):
		return "serves with TLS", "use " + n.base.Host + " without http://"
	case e.what == "":
		return fmt.Sprintf("answered with status %d", e.status), "check that the address is that of ingero dashboard"
	}
	return "answered: " + e.what, e.do
}

// untrustedWords describes why a certificate is not trusted, and the remedy.
func untrustedWords(n *node, e *trustError) (what, do string) {
	pin := "--pin " + guard.Fingerprint(e.leaf) + ", if ingero dashboard printed this fingerprint there"
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(e.err, &host):
		names := slices.Clone(e.leaf.DNSNames)
		for _, ip := range e.leaf.IPAddresses {
			names = append(names, ip.String())
		}
		return "has a certificate for " + printable(strings.Join(names, ", "), 100) + ", not for " + n.base.Hostname(), "use one of these names, or " + pin
	case errors.As(e.err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Sprintf("has a certificate that is valid only from %s to %s", e.leaf.NotBefore.UTC().Format(time.RFC3339), e.leaf.NotAfter.UTC().Format(time.RFC3339)),
			"renew it, or correct the clocks; or " + pin
	case e.leaf.Issuer.String() == e.leaf.Subject.String():
		return "has a self-signed certificate", pin
	}
	return "has a certificate of an unknown authority", "set --ca FILE with the certificate of that authority; or " + pin
}

// isPlain reports whether a machine spoke HTTP where TLS was expected.
func isPlain(err error) bool {
	var head tls.RecordHeaderError
	return errors.As(err, &head) && string(head.RecordHeader[:]) == "HTTP/" || strings.Contains(err.Error(), "server gave HTTP response to HTTPS client")
}

// isUnreachable reports whether no connection was established in time.
func isUnreachable(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial" && op.Timeout()
}

// isOld reports whether a machine does not support TLS 1.3.
func isOld(err error) bool {
	text := err.Error() // an alert, which has no type
	return strings.Contains(text, "protocol version not supported") || strings.Contains(text, "unsupported protocol version")
}

// printable makes a foreign text harmless to a terminal, and no longer than most.
func printable(s string, most int) string {
	n := 0
	return strings.Map(func(r rune) rune {
		n++
		switch {
		case n > most:
			return -1
		case r == unicode.ReplacementChar || !unicode.IsPrint(r):
			return '?'
		}
		return r
	}, s)
}
