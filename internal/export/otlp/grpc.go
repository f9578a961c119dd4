package otlp

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// gRPC over HTTP/2 is one request with one framed message, and a status in the answer's trailers
// (grpc.io, PROTOCOL-HTTP2). net/http does the rest.

const frameHead = 5 // bytes: compression flag, and the message's length

// frame prepends the head to a message.
func frame(b []byte, compressed bool) []byte {
	out := make([]byte, frameHead, frameHead+len(b))
	if compressed {
		out[0] = 1
	}
	binary.BigEndian.PutUint32(out[1:], uint32(len(b)))
	return append(out, b...)
}

// grpcCodes are the statuses with names. The marked ones may be retried
// (opentelemetry.io/docs/specs/otlp).
var grpcCodes = [...]struct {
	name  string
	retry bool
}{
	{"OK", false}, {"CANCELLED", true}, {"UNKNOWN", false}, {"INVALID_ARGUMENT", false}, {"DEADLINE_EXCEEDED", true}, {"NOT_FOUND", false},
	{"ALREADY_EXISTS", false}, {"PERMISSION_DENIED", false}, {"RESOURCE_EXHAUSTED", false}, {"FAILED_PRECONDITION", false}, {"ABORTED", true},
	{"OUT_OF_RANGE", true}, {"UNIMPLEMENTED", false}, {"INTERNAL", false}, {"UNAVAILABLE", true}, {"DATA_LOSS", true}, {"UNAUTHENTICATED", false},
}

const (
	resourceExhausted = 8
	outOfRange        = 11
)

// tooLarge are the answers of gRPC servers to a request beyond their limit, 4 MiB by default: a status,
// and a part of the message. The same statuses have other meanings too.
var tooLarge = [...]struct {
	code int
	text string
}{
	{resourceExhausted, "larger than max"},                                              // Go, C, C++, Python, Node.js
	{resourceExhausted, "gRPC message exceeds maximum size"},                            // Java, before or after decompression
	{resourceExhausted, "Received message exceeds the maximum configured message size"}, // .NET
	{resourceExhausted, "decompresses to a size larger than"},                           // Node.js
	{resourceExhausted, "exceeded while decompressing message"},                         // Rust (tonic)
	{outOfRange, "decoded message length too large"},                                    // Rust (tonic), such as Vector
}

// grpcAnswer interprets an answer of HTTP status 200.
func grpcAnswer(s Signal, res *http.Response, body []byte) answer {
	status := res.Trailer.Get("grpc-status")
	from := res.Trailer
	if status == "" { // an answer without a message has it in its headers
		status, from = res.Header.Get("grpc-status"), res.Header
	}
	code, err := strconv.ParseUint(status, 10, 8)
	if err != nil || !strings.HasPrefix(res.Header.Get("Content-Type"), "application/grpc") {
		return answer{err: errors.New("the receiver does not seem to be a gRPC server: its answer has no status")}
	}
	if code != 0 {
		return grpcFailed(int(code), from)
	}
	if len(body) < frameHead || body[0] != 0 || uint64(binary.BigEndian.Uint32(body[1:])) != uint64(len(body)-frameHead) {
		return answer{err: fmt.Errorf("the answer to %s is not a gRPC message", s)}
	}
	var a answer
	if a.rejected, a.message, err = partialProto(body[frameHead:]); err != nil {
		return answer{err: fmt.Errorf("the answer to %s is not an OTLP message: %w", s, err)}
	}
	return a
}

// grpcFailed interprets a status other than success.
func grpcFailed(code int, from http.Header) answer {
	message, err := url.PathUnescape(from.Get("grpc-message"))
	if err != nil {
		message = from.Get("grpc-message")
	}
	name, retry := "status "+strconv.Itoa(code), false
	if code < len(grpcCodes) {
		name, retry = grpcCodes[code].name, grpcCodes[code].retry
	}
	if code == resourceExhausted { // temporary if it gives a delay
		details, _ := base64.RawStdEncoding.DecodeString(strings.TrimRight(from.Get("grpc-status-details-bin"), "="))
		retry = strings.Contains(string(details), "google.rpc.RetryInfo")
	}
	large := false
	for _, row := range tooLarge {
		large = large || code == row.code && strings.Contains(message, row.text)
	}
	if message = printable([]byte(message)); message != "" {
		name += ": " + message
	}
	return answer{retry: retry && !large, large: large, err: errors.New(name)}
}
