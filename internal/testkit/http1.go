package testkit

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"testing"
)

// HTTP1 fails the test if a client speaks anything but HTTP/1.1 to a TLS server that prefers HTTP/2. It changes
// which certificates the client's http.Transport trusts.
func HTTP1(t *testing.T, client *http.Client) {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	transport := client.Transport.(*http.Transport)
	if transport.TLSClientConfig == nil {
		transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	transport.TLSClientConfig.RootCAs = x509.NewCertPool()
	transport.TLSClientConfig.RootCAs.AddCert(server.Certificate())
	answer, err := client.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	if err := answer.Body.Close(); err != nil {
		t.Fatal(err)
	}
	if answer.Proto != "HTTP/1.1" {
		t.Errorf("the client speaks %s, want HTTP/1.1", answer.Proto)
	}
}
