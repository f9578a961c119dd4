package otlp

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	collectortrace "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"

	"ingero/internal/testkit"
)

// oneSpan is a request of one span.
func oneSpan() *collectortrace.ExportTraceServiceRequest {
	return &collectortrace.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{{ScopeSpans: []*tracepb.ScopeSpans{{
		Spans: []*tracepb.Span{{Name: "cuMemAlloc", TraceId: bytes.Repeat([]byte{0xab}, 16), SpanId: bytes.Repeat([]byte{0xcd}, 8),
			StartTimeUnixNano: 1_700_000_000_000_000_001, Status: &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR}}}}}}}}
}

// partialAnswer is an answer that 3 items were rejected, with a reason.
func partialAnswer() []byte {
	b, _ := proto.Marshal(&collectortrace.ExportTraceServiceResponse{PartialSuccess: &collectortrace.ExportTracePartialSuccess{RejectedSpans: 3, ErrorMessage: "too\told"}})
	return b
}

func text(status int, kind, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if kind != "" {
			w.Header().Set("Content-Type", kind)
		}
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

// grpcText answers with a status in the trailers, after a message if there is one.
func grpcText(body []byte, trailer ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		_, _ = w.Write(body)
		for i := 0; i+1 < len(trailer); i += 2 {
			w.Header().Set(http.TrailerPrefix+trailer[i], trailer[i+1])
		}
	}
}

// Each answer determines acceptance, the retry and its delay, and the message.
func TestAnswers(t *testing.T) {
	retryInfo := base64.RawStdEncoding.EncodeToString([]byte("\x12type.googleapis.com/google.rpc.RetryInfo"))
	for _, tt := range []struct {
		name     string
		protocol Protocol
		answer   http.HandlerFunc
		want     answer
		says     string // in the error; empty: no error
	}{
		{"accepted", HTTPProtobuf, nil, answer{}, ""},
		{"accepted in JSON", HTTPJSON, text(200, "application/json", "{}"), answer{}, ""},
		{"accepted without a word", HTTPProtobuf, text(200, "text/plain", ""), answer{}, ""},
		{"a part", HTTPProtobuf, text(200, "application/x-protobuf", string(partialAnswer())), answer{rejected: 3, message: "too old"}, ""},
		{"a part, in JSON", HTTPJSON, text(200, "application/json; charset=utf-8", `{"partialSuccess":{"rejectedSpans":"3","errorMessage":"too old"}}`), answer{rejected: 3, message: "too old"}, ""},
		{"a part as a number", HTTPJSON, text(200, "application/json", `{"partialSuccess":{"rejectedSpans":3}}`), answer{rejected: 3}, ""},
		{"a part below none", HTTPJSON, text(200, "application/json", `{"partialSuccess":{"rejectedSpans":"-9"}}`), answer{}, ""},
		{"busy", HTTPProtobuf, text(429, "", "", "Retry-After", "7"), answer{retry: true, after: 7 * time.Second}, "429"},
		{"away", HTTPProtobuf, text(503, "", ""), answer{retry: true}, "503"},
		{"behind a proxy", HTTPProtobuf, text(502, "", ""), answer{retry: true}, "502"},
		{"slow behind a proxy", HTTPProtobuf, text(504, "", "", "Retry-After", "soon"), answer{retry: true}, "504"},
		{"too large", HTTPProtobuf, text(413, "", ""), answer{large: true}, "413"},
		{"no such place", HTTPProtobuf, text(404, "text/plain", "404 page not found"), answer{}, "does not accept traces at /v1/traces"},
		{"who are you", HTTPProtobuf, text(401, "", ""), answer{}, "--otlp-headers-file"},
		{"bad request", HTTPProtobuf, text(400, "text/plain", "no\x1b[31mspans"), answer{}, "400 Bad Request: no [31mspans"},
		{"created", HTTPProtobuf, text(201, "application/x-protobuf", ""), answer{}, ""},
		{"accepted for later", HTTPProtobuf, text(202, "text/plain", "accepted"), answer{}, ""},
		{"accepted for later, a part", HTTPProtobuf, text(202, "application/x-protobuf", string(partialAnswer())), answer{rejected: 3, message: "too old"}, ""},
		{"no content", HTTPJSON, text(204, "", ""), answer{}, ""},
		{"gRPC, no content", GRPC, text(204, "", ""), answer{}, "204"},
		{"elsewhere", HTTPProtobuf, text(307, "", "", "Location", "/elsewhere"), answer{}, "307"},
		{"a page", HTTPProtobuf, text(200, "text/html", "<html>sign in"), answer{}, `does not seem to be an OTLP receiver: unexpected content type "text/html"`},
		{"garbage", HTTPProtobuf, text(200, "application/x-protobuf", "\xff\xff\xff"), answer{}, "does not seem to be an OTLP receiver"},
		{"garbage in JSON", HTTPJSON, text(200, "application/json", `{"partialSuccess":`), answer{}, "does not seem to be an OTLP receiver"},
		{"no end", HTTPProtobuf, text(200, "application/x-protobuf", strings.Repeat("\x12\x7f", 1<<20)), answer{}, "does not seem to be an OTLP receiver"},
		{"cut short", HTTPProtobuf, text(200, "application/x-protobuf", "x", "Content-Length", "10"), answer{retry: true}, "read the answer"},
		{"gRPC", GRPC, nil, answer{}, ""},
		{"gRPC, a part", GRPC, grpcText(frame(partialAnswer(), false), "grpc-status", "0"), answer{rejected: 3, message: "too old"}, ""},
		{"gRPC, away", GRPC, grpcText(nil, "grpc-status", "14", "grpc-message", "no%20one%20home"), answer{retry: true}, "UNAVAILABLE: no one home"},
		{"gRPC, away at once", GRPC, text(200, "application/grpc", "", "grpc-status", "14"), answer{retry: true}, "UNAVAILABLE"},
		{"gRPC, full", GRPC, grpcText(nil, "grpc-status", "8"), answer{}, "RESOURCE_EXHAUSTED"},
		{"gRPC, full for a while", GRPC, grpcText(nil, "grpc-status", "8", "grpc-status-details-bin", retryInfo), answer{retry: true}, "RESOURCE_EXHAUSTED"},
		{"gRPC, too large for Go", GRPC, grpcText(nil, "grpc-status", "8", "grpc-message", "grpc: received message larger than max (6117815 vs. 4194304)"), answer{large: true}, "RESOURCE_EXHAUSTED"},
		{"gRPC, too large for C++", GRPC, grpcText(nil, "grpc-status", "8", "grpc-message", "SERVER: Received message larger than max (6117815 vs. 4194304)"), answer{large: true}, "RESOURCE_EXHAUSTED"},
		{"gRPC, too large for Java", GRPC, grpcText(nil, "grpc-status", "8", "grpc-message", "gRPC message exceeds maximum size 4194304: 6117815"), answer{large: true}, "RESOURCE_EXHAUSTED"},
		{"gRPC, too large for Java once decompressed", GRPC, grpcText(nil, "grpc-status", "8", "grpc-message", "Decompressed gRPC message exceeds maximum size 4194304"), answer{large: true}, "RESOURCE_EXHAUSTED"},
		{"gRPC, too large for .NET", GRPC, grpcText(nil, "grpc-status", "8", "grpc-message", "Received message exceeds the maximum configured message size."), answer{large: true}, "RESOURCE_EXHAUSTED"},
		{"gRPC, too large for Node.js once decompressed", GRPC, grpcText(nil, "grpc-status", "8", "grpc-message", "Received message that decompresses to a size larger than 4194304"), answer{large: true}, "RESOURCE_EXHAUSTED"},
		{"gRPC, too large for Rust once decompressed", GRPC, grpcText(nil, "grpc-status", "8", "grpc-message", "Error decompressing: size limit, of 4194304 bytes, exceeded while decompressing message"), answer{large: true}, "RESOURCE_EXHAUSTED"},
		{"gRPC, too large for Rust", GRPC, grpcText(nil, "grpc-status", "11", "grpc-message", "Error, decoded message length too large: found 6117815 bytes, the limit is: 4194304 bytes"), answer{large: true}, "OUT_OF_RANGE"},
		{"gRPC, out of range", GRPC, grpcText(nil, "grpc-status", "11", "grpc-message", "no such offset"), answer{retry: true}, "OUT_OF_RANGE"},
		{"gRPC, no such service", GRPC, grpcText(nil, "grpc-status", "12"), answer{}, "UNIMPLEMENTED"},
		{"gRPC, a status of its own", GRPC, grpcText(nil, "grpc-status", "77"), answer{}, "status 77"},
		{"gRPC, no status", GRPC, grpcText(nil), answer{}, "its answer has no status"},
		{"gRPC, no gRPC", GRPC, text(200, "text/html", "<html>"), answer{}, "does not seem to be a gRPC server"},
		{"gRPC, garbage", GRPC, grpcText([]byte("\x00\x00\x00\x00\x09xyz"), "grpc-status", "0"), answer{}, "not a gRPC message"},
		{"gRPC, another status", GRPC, text(503, "", ""), answer{retry: true}, "503"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			testkit.LeakCheck(t)
			r := newReceiver(t, tt.answer)
			c := newClient(target(t, r.URL, tt.protocol, Traces), Traces, "1", time.Now)
			defer c.close()
			body, err := c.encode(oneSpan())
			if err != nil {
				t.Fatal(err)
			}
			got := c.send(context.Background(), body)
			if got.retry != tt.want.retry || got.large != tt.want.large || got.after != tt.want.after || got.rejected != tt.want.rejected || got.message != tt.want.message {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			if said := fmt.Sprint(got.err); (got.err != nil) != (tt.says != "") || tt.says != "" && !strings.Contains(said, tt.says) {
				t.Errorf("said %q, want %q", said, tt.says)
			}
			if n := r.count(); n != 1 {
				t.Errorf("%d requests, want 1", n)
			}
		})
	}
}

// Each protocol and compression receives the sent data, with its headers.
func TestRequests(t *testing.T) {
	for _, p := range []Protocol{HTTPProtobuf, GRPC} {
		for _, gzip := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s gzip %v", p, gzip), func(t *testing.T) {
				r := newReceiver(t, nil)
				to := target(t, r.URL, p, Traces)
				to.Gzip, to.Header = gzip, http.Header{"Authorization": {"Bearer x"}}
				c := newClient(to, Traces, "1.2", time.Now)
				defer c.close()
				for range 2 { // buffers are reused
					body, err := c.encode(oneSpan())
					if err != nil {
						t.Fatal(err)
					}
					if a := c.send(context.Background(), body); a.err != nil {
						t.Fatal(a.err)
					}
				}
				spans, _ := r.spans(t)
				if len(spans) != 2 || spans[1].Name != "cuMemAlloc" || spans[1].StartTimeUnixNano != 1_700_000_000_000_000_001 {
					t.Errorf("got %v", spans)
				}
				h := r.requests[0].Header
				if h.Get("Authorization") != "Bearer x" || h.Get("User-Agent") != "ingero/1.2 OTLP" {
					t.Errorf("headers %v", h)
				}
			})
		}
	}
}

// A connection whose peer acknowledges nothing ends after the time of a request.
func TestDeadConnectionEnds(t *testing.T) {
	r := newReceiver(t, nil)
	c := newClient(target(t, r.URL, GRPC, Traces), Traces, "1", time.Now)
	defer c.close()
	var got int
	var err error
	ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		raw, cerr := i.Conn.(syscall.Conn).SyscallConn()
		if err = cerr; err == nil {
			cerr = raw.Control(func(fd uintptr) { got, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT) })
		}
		err = errors.Join(cerr, err)
	}})
	if a := c.send(ctx, frame(nil, false)); a.err != nil || err != nil {
		t.Fatal(a.err, err)
	}
	if want := int(c.Timeout.Milliseconds()); got != want {
		t.Errorf("the timeout is %d ms, want %d", got, want)
	}
}

// After a request without an answer, the next one has its own connection.
func TestConnectionWithoutAnswerIsClosed(t *testing.T) {
	for _, protocol := range []Protocol{HTTPProtobuf, GRPC} {
		ctx, cancel := context.WithCancel(context.Background())
		var from []string
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
			if from = append(from, q.RemoteAddr); len(from) == 1 {
				cancel()
				<-q.Context().Done()
			}
		}))
		s.EnableHTTP2 = true
		s.StartTLS()
		to := target(t, s.URL, protocol, Traces)
		to.TLS = &tls.Config{RootCAs: x509.NewCertPool()}
		to.TLS.RootCAs.AddCert(s.Certificate())
		c := newClient(to, Traces, "1", time.Now)
		if a := c.send(ctx, nil); !a.retry {
			t.Fatalf("%s: got %+v, want an answer that allows a retry", protocol, a)
		}
		testkit.Eventually(t, "another connection", func() bool { // HTTP/2 ends a request in the background
			failed := c.failed
			c.send(context.Background(), nil)
			c.failed = failed
			return from[0] != from[len(from)-1]
		})
		c.close()
		s.Close()
	}
}

// JSON follows the specification: ids in hexadecimal, enums as numbers, 64-bit numbers as text.
func TestJSON(t *testing.T) {
	b := appendJSON(nil, oneSpan().ProtoReflect())
	var got struct {
		ResourceSpans []struct {
			ScopeSpans []struct {
				Spans []map[string]any
			}
		}
	}
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	s := got.ResourceSpans[0].ScopeSpans[0].Spans[0]
	for key, want := range map[string]any{"traceId": strings.Repeat("ab", 16), "spanId": strings.Repeat("cd", 8), "name": "cuMemAlloc",
		"startTimeUnixNano": "1700000000000000001", "status": map[string]any{"code": 2.0}} {
		if fmt.Sprint(s[key]) != fmt.Sprint(want) {
			t.Errorf("%s is %v, want %v", key, s[key], want)
		}
	}
}

// A certificate is checked by the machine's authorities, or by the configured ones.
func TestCertificates(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.ProtoMajor == 2 && q.Header.Get("Content-Type") == "application/grpc" {
			grpcText(make([]byte, frameHead), "grpc-status", "0")(w, q)
			return
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	s.EnableHTTP2 = true
	s.Config.ErrorLog = nil
	s.StartTLS()
	defer s.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	for _, tt := range []struct {
		name     string
		protocol Protocol
		config   *tls.Config
		says     string
	}{
		{"unknown", HTTPProtobuf, nil, "x509"},
		{"known", HTTPProtobuf, &tls.Config{RootCAs: pool}, ""},
		{"unknown, gRPC", GRPC, nil, "x509"},
		{"known, gRPC", GRPC, &tls.Config{RootCAs: pool}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			to := target(t, s.URL, tt.protocol, Traces)
			to.TLS = tt.config
			c := newClient(to, Traces, "1", time.Now)
			defer c.close()
			a := c.send(context.Background(), frame(nil, false))
			if (a.err == nil) != (tt.says == "") || a.err != nil && !strings.Contains(a.err.Error(), tt.says) || a.retry {
				t.Errorf("got %+v", a)
			}
		})
	}
	o, err := Configure(Settings{Endpoint: s.URL, CAFile: ca})
	if err != nil || !o.Targets[Traces].TLS.RootCAs.Equal(pool) {
		t.Errorf("--otlp-ca-file is not trusted: %v", err)
	}
}
