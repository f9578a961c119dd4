package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 64 << 10

// client sends one signal's requests. It is not safe for concurrent use.
type client struct {
	Target
	signal Signal
	agent  string // User-Agent
	http   *http.Client
	now    func() time.Time
	failed bool // the last request had no answer

	wire, packed bytes.Buffer // of the current request
	gzip         *gzip.Writer
}

// answer is the result of a request.
type answer struct {
	retry    bool          // it may be retried
	after    time.Duration // least delay; 0: not given
	rejected int64         // items that the receiver rejected
	message  string        // the receiver's message about these
	why      string        // reason for which items are lost if the request failed; empty: by retry
	large    bool          // the receiver refused the request for its size only
	err      error         // nil: the request was accepted
}

func newClient(t Target, s Signal, version string, now func() time.Time) *client {
	p := new(http.Protocols)
	p.SetHTTP1(t.Protocol != GRPC) // a request that fails closes its connection; HTTP/2 would keep it
	p.SetHTTP2(t.Protocol == GRPC)
	p.SetUnencryptedHTTP2(t.Protocol == GRPC)
	return &client{Target: t, signal: s, agent: "ingero/" + version + " OTLP", now: now, http: &http.Client{
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, Protocols: p, TLSClientConfig: t.TLS.Clone(), DisableCompression: true,
			DialContext: dialer(t.Timeout).DialContext, TLSHandshakeTimeout: t.Timeout, ResponseHeaderTimeout: t.Timeout,
			MaxConnsPerHost: 1, IdleConnTimeout: 90 * time.Second, MaxResponseHeaderBytes: maxAnswer},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // headers may be secret
	}}
}

// dialer returns a dialer for connections that end when the peer has not acknowledged data for the timeout.
// By default, TCP retransmits for a quarter of an hour, and HTTP/2 uses the dead connection meanwhile.
// HTTP/2's own check, a ping, is no choice: gRPC servers end connections with many pings.
func dialer(timeout time.Duration) *net.Dialer {
	return &net.Dialer{Timeout: timeout, Control: func(_, _ string, c syscall.RawConn) (err error) {
		closed := c.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(timeout.Milliseconds()))
		})
		return errors.Join(closed, err)
	}}
}

func (c *client) close() { c.http.CloseIdleConnections() }

// encode encodes a request's body. It is valid until the next call.
func (c *client) encode(m proto.Message) ([]byte, error) {
	c.wire.Reset()
	b, err := c.wire.AvailableBuffer(), error(nil)
	if c.Protocol == HTTPJSON {
		b = appendJSON(b, m.ProtoReflect())
	} else if b, err = (proto.MarshalOptions{}).MarshalAppend(b, m); err != nil {
		return nil, err
	}
	c.wire.Write(b)
	if c.Gzip {
		c.packed.Reset()
		if c.gzip == nil {
			c.gzip, _ = gzip.NewWriterLevel(&c.packed, gzip.BestSpeed) // the level is valid
		}
		c.gzip.Reset(&c.packed)
		if _, err := c.gzip.Write(b); err != nil { // in memory: cannot fail
			return nil, err
		}
		if err := c.gzip.Close(); err != nil {
			return nil, err
		}
		b = c.packed.Bytes()
	}
	if c.Protocol == GRPC {
		return frame(b, c.Gzip), nil
	}
	return b, nil
}

// send makes one request.
func (c *client) send(ctx context.Context, body []byte) answer {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL.String(), bytes.NewReader(body))
	if err != nil {
		return answer{err: err}
	}
	for name, values := range c.Header {
		r.Header[name] = values
	}
	r.Header.Set("User-Agent", c.agent)
	switch {
	case c.Protocol == GRPC:
		r.Header.Set("Content-Type", "application/grpc")
		r.Header.Set("TE", "trailers")
		if c.Gzip {
			r.Header.Set("grpc-encoding", "gzip")
		}
	case c.Protocol == HTTPJSON:
		r.Header.Set("Content-Type", "application/json")
	default:
		r.Header.Set("Content-Type", "application/x-protobuf")
	}
	if c.Gzip && c.Protocol != GRPC {
		r.Header.Set("Content-Encoding", "gzip")
	}
	if c.failed { // the connection may be dead beyond a proxy that acknowledges data
		c.http.CloseIdleConnections()
	}
	res, err := c.http.Do(r)
	if c.failed = err != nil; err != nil {
		why := reason(err)
		return answer{retry: why != lostTLS && why != lostCertificate, why: why, err: plain(err)}
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	err = errors.Join(err, res.Body.Close())
	if res.StatusCode/100 != 2 || c.Protocol == GRPC && res.StatusCode != http.StatusOK {
		return c.status(res, text)
	}
	if err != nil { // acceptance unknown
		return answer{retry: true, err: fmt.Errorf("read the answer: %w", plain(err))}
	}
	if c.Protocol == GRPC {
		return grpcAnswer(c.signal, res, text)
	}
	return c.accepted(res, text)
}

// status interprets an unsuccessful answer.
func (c *client) status(res *http.Response, text []byte) answer {
	a := answer{err: errors.New(res.Status)}
	switch res.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		a.retry, a.after = true, c.retryAfter(res.Header.Get("Retry-After"))
	case http.StatusRequestEntityTooLarge:
		a.large = true
		a.err = fmt.Errorf("%s: raise the receiver's limit on the size of a request", res.Status)
	case http.StatusNotFound:
		a.err = fmt.Errorf("%s: the receiver does not accept %s at %s", res.Status, c.signal, c.URL.Path)
	case http.StatusUnauthorized, http.StatusForbidden:
		a.err = fmt.Errorf("%s: check the headers (--otlp-headers-file)", res.Status)
	default:
		if message := printable(text); message != "" && !strings.HasPrefix(res.Header.Get("Content-Type"), "application/x-protobuf") {
			a.err = fmt.Errorf("%s: %s", res.Status, message)
		}
	}
	return a
}

// retryAfter parses seconds or a date; anything else is no delay.
func (c *client) retryAfter(s string) time.Duration {
	if n, err := strconv.ParseUint(s, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(s); err == nil {
		return max(at.Sub(c.now()), 0)
	}
	return 0
}

// accepted interprets a successful answer. An answer with status 200 that is not in a receiver's format
// is an error: it may be a page to sign in. Receivers also answer 202 and 204, with any text or none.
func (c *client) accepted(res *http.Response, text []byte) (a answer) {
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	var err error
	switch {
	case len(text) == 0: // an empty message, or a terse receiver
		return answer{}
	case res.StatusCode != http.StatusOK && kind != "application/json" && kind != "application/x-protobuf":
		return answer{}
	case kind == "application/json":
		a.rejected, a.message, err = partialJSON(text, c.signal)
	case kind == "application/x-protobuf":
		a.rejected, a.message, err = partialProto(text)
	default:
		err = fmt.Errorf("unexpected content type %q", kind)
	}
	if err != nil {
		return answer{err: fmt.Errorf("%s does not seem to be an OTLP receiver: %w", c.URL.Host, err)}
	}
	return a
}

// partialProto parses Export*ServiceResponse: field 1 is a partial success, with the number of
// rejected items in field 1, and the reason in field 2. All signals have the same format.
func partialProto(b []byte) (rejected int64, message string, err error) {
	err = fields(b, func(n protowire.Number, _ uint64, inner []byte) error {
		if n != 1 {
			return nil
		}
		return fields(inner, func(n protowire.Number, v uint64, text []byte) error {
			switch n {
			case 1:
				rejected = max(int64(v), 0)
			case 2:
				message = printable(text)
			}
			return nil
		})
	})
	return rejected, message, err
}

// fields calls f for each field of a message.
func fields(b []byte, f func(n protowire.Number, v uint64, text []byte) error) error {
	for len(b) > 0 {
		n, kind, size := protowire.ConsumeTag(b)
		if size < 0 {
			return protowire.ParseError(size)
		}
		b = b[size:]
		var v uint64
		var text []byte
		switch kind {
		case protowire.VarintType:
			v, size = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			text, size = protowire.ConsumeBytes(b)
		default:
			size = protowire.ConsumeFieldValue(n, kind, b)
		}
		if size < 0 {
			return protowire.ParseError(size)
		}
		b = b[size:]
		if err := f(n, v, text); err != nil {
			return err
		}
	}
	return nil
}

// reason names the failures to reach a receiver that the user must mend: its name, its certificate, TLS
// or the route.
func reason(err error) string {
	var dns *net.DNSError
	text := err.Error()
	switch {
	case errors.As(err, &dns):
		return lostDNS
	case strings.Contains(text, "x509: "), strings.Contains(text, "tls: ") && strings.Contains(text, "certificate"):
		return lostCertificate
	case strings.Contains(text, "tls: "), strings.Contains(text, "server gave HTTP response to HTTPS client"):
		return lostTLS
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return lostRoute
	}
	return ""
}

// plain removes the known method and URL from an error.
func plain(err error) error {
	var dns *net.DNSError
	if errors.As(err, &dns) { // also if it timed out
		return dns
	}
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) && timeout.Timeout() {
		return errors.New("no answer in time")
	}
	if inner := errors.Unwrap(err); inner != nil && strings.HasPrefix(err.Error(), "Post ") {
		return inner
	}
	return err
}

// printable returns the start of a foreign text, on one line.
func printable(text []byte) string {
	const most = 200
	s := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\uFFFD' || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, string(text[:min(len(text), most)]))
	return strings.Join(strings.Fields(s), " ")
}
