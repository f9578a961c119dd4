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
var errAnswer = errors.New("the answer is not that of an ingero")

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
		p.What, p.Do = "serves without TLS", "name it as http://"+n.base.Host+", or start it without --no-tls"
	case isOld(err):
		p.What, p.Do = "does not speak TLS 1.3", "is it an ingero?"
	case errors.As(err, &dns):
		p.What, p.Do = "is no name that is known here", "name its address, or see to the name"
	case errors.Is(err, syscall.ECONNREFUSED):
		p.What, p.Do = "refuses: nobody listens there", "ingero dashboard --addr 0.0.0.0:"+n.base.Port()+" --token-file FILE, on that machine"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		p.What = "cannot be reached from here"
	case errors.Is(err, context.Canceled):
		p.What = "was not waited for any more"
	case isUnreachable(err):
		p.What, p.Do = "cannot be reached: nothing answers there", "is the machine up, and does a firewall let port "+n.base.Port()+" through?"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		p.What, p.Do = "did not answer within "+f.o.Timeout.String(), "give it more time with --node-timeout, if it is only slow"
	case errors.Is(err, errLarge):
		p.What, p.Do = "sent an answer that is too large", "ask about less"
	case errors.Is(err, errAnswer):
		p.What, p.Do = "does not answer as an ingero does", "is it one, of this version or a later one?"
	default:
		p.What = "cannot be asked: " + printable(err.Error(), 200)
	}
	return p
}

// refused describes a machine's refusal.
func (f *Fleet) refused(n *node, e *statusError) (what, do string) {
	switch {
	case e.status == http.StatusUnauthorized && f.o.Token == "":
		return "wants a token", "--token-file FILE, or INGERO_TOKEN"
	case e.status == http.StatusUnauthorized:
		return "has another token", "--token-file FILE must have the one that it was started with"
	case e.status == http.StatusBadRequest && n.base.Scheme == "http" && strings.Contains(e.what, "HTTPS server"):
		return "serves with TLS", "name it as " + n.base.Host + ", without http://"
	case e.what == "":
		return fmt.Sprintf("answers with status %d", e.status), "is it an ingero?"
	}
	return "says: " + e.what, e.do
}

// untrustedWords describes why a certificate is not trusted, and the remedy.
func untrustedWords(n *node, e *trustError) (what, do string) {
	pin := "--pin " + guard.Fingerprint(e.leaf) + ", if ingero dashboard printed that there"
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(e.err, &host):
		names := slices.Clone(e.leaf.DNSNames)
		for _, ip := range e.leaf.IPAddresses {
			names = append(names, ip.String())
		}
		return "has a certificate for " + printable(strings.Join(names, ", "), 100) + ", not for " + n.base.Hostname(), "name it by one of these, or " + pin
	case errors.As(e.err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Sprintf("has a certificate that is good from %s to %s", e.leaf.NotBefore.UTC().Format(time.RFC3339), e.leaf.NotAfter.UTC().Format(time.RFC3339)),
			"renew it, or set the clocks; or " + pin
	case e.leaf.Issuer.String() == e.leaf.Subject.String():
		return "has a certificate that is signed by itself", pin
	}
	return "has a certificate of an authority that is not known here", "--ca FILE with that authority's certificate; or " + pin
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
