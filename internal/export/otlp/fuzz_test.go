package otlp

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"unicode"
)

// Any answer, in any declared format, is accepted or an error; its text is printable, and no number
// is negative.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"partialSuccess":{"rejectedSpans":"3","errorMessage":"no room"}}`), "application/json", "0")
	f.Add([]byte("\x0a\x05\x08\x03\x12\x01x"), "application/x-protobuf", "0")
	f.Add([]byte("\x00\x00\x00\x00\x07\x0a\x05\x08\x03\x12\x01x"), "application/grpc", "0")
	f.Add([]byte("\x0a\xff\xff\xff\xff\x0f"), "application/x-protobuf", "14")
	f.Add([]byte(`{"partialSuccess":{"rejectedDataPoints":-9223372036854775808,"errorMessage":"\u001b[2J"}}`), "application/json", "x")
	f.Fuzz(func(t *testing.T, body []byte, kind, status string) {
		res := &http.Response{StatusCode: http.StatusOK, Status: "200 OK", Header: http.Header{"Content-Type": {kind}},
			Trailer: http.Header{"Grpc-Status": {status}, "Grpc-Message": {string(body)}}}
		for s := range Signals {
			c := &client{Target: Target{URL: &url.URL{Host: "collector:4318"}}, signal: s}
			bad := *res
			bad.StatusCode, bad.Status = http.StatusBadRequest, "400 Bad Request"
			for _, a := range []answer{c.accepted(res, body), grpcAnswer(s, res, body), c.status(&bad, body)} {
				said := a.message
				if a.err != nil {
					said += a.err.Error()
				}
				if a.rejected < 0 || strings.ContainsFunc(a.message, unicode.IsControl) || len(said) > 4096+2*len(kind) {
					t.Errorf("%d rejected, %d bytes: %.100q", a.rejected, len(said), said)
				}
			}
		}
	})
}
