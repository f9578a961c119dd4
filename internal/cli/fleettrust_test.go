package cli

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ingero/internal/testkit"
)

// An untrusted certificate is rejected with a remedy, and the remedy works.
func TestNodesTrust(t *testing.T) {
	db := testDB(t)
	s := serve(t, db, nil, nil, "--addr", ":0")
	address := strings.TrimPrefix(s.url, "https://")
	ask := func(more ...string) (int, string) {
		code, _, said := command(t, nil, nil, append([]string{"query", "--nodes", address, "SELECT 1"}, more...)...)
		return code, said
	}
	code, said := ask()
	if code != 1 || !strings.Contains(said, "has a self-signed certificate") || !strings.Contains(said, "--pin "+s.fingerprint) {
		t.Errorf("unknown: %d %s", code, said)
	}
	if code, said := ask("--pin", s.fingerprint); code != 0 {
		t.Errorf("pinned: %d %s", code, said)
	}
	if code, said := ask("--pin", "sha256:"+strings.Repeat("0", 64)); code != 1 || !strings.Contains(said, s.fingerprint) {
		t.Errorf("another's pin: %d %s", code, said)
	}
	if code, said := ask("--pin", "sha256:12"); code != 2 || !strings.Contains(said, "is not a fingerprint") {
		t.Errorf("half a pin: %d %s", code, said)
	}
	c, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	ca := filepath.Join(t.TempDir(), "ca.pem")
	leaf := c.ConnectionState().PeerCertificates[0]
	_ = c.Close()
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf.Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, said := ask("--ca", ca); code != 0 {
		t.Errorf("by its authority: %d %s", code, said)
	}
	if err := leaf.VerifyHostname("127.0.0.2"); err == nil {
		t.Fatal("the certificate is for every address")
	}
	l, err := net.Listen("tcp", "127.0.0.2:0") // the same server under a name not in its certificate
	if err != nil {
		t.Fatal(err)
	}
	go relay(l, address)
	t.Cleanup(func() { _ = l.Close() })
	code, _, said = command(t, nil, nil, "query", "--nodes", l.Addr().String(), "--ca", ca, "SELECT 1")
	if code != 1 || !strings.Contains(said, "not for 127.0.0.2") || !strings.Contains(said, "127.0.0.1") {
		t.Errorf("another name: %d %s", code, said)
	}
	old := httptest.NewUnstartedServer(http.NotFoundHandler())
	old.TLS = &tls.Config{MaxVersion: tls.VersionTLS12}
	old.Config.ErrorLog = log.New(io.Discard, "", 0)
	old.StartTLS()
	t.Cleanup(old.Close)
	code, _, said = command(t, nil, nil, "query", "--nodes", strings.TrimPrefix(old.URL, "https://"), "SELECT 1")
	if code != 1 || !strings.Contains(said, "does not support TLS 1.3") {
		t.Errorf("an old one: %d %s", code, said)
	}
}

// relay forwards connections to another address.
func relay(l net.Listener, to string) {
	for {
		a, err := l.Accept()
		if err != nil {
			return
		}
		b, err := net.Dial("tcp", to)
		if err != nil {
			_ = a.Close()
			continue
		}
		go func() { _, _ = io.Copy(a, b); _ = a.Close() }()
		go func() { _, _ = io.Copy(b, a); _ = b.Close() }()
	}
}

// Clock skew is reported, and a node is queried by its own clock.
func TestNodesClock(t *testing.T) {
	testkit.LeakCheck(t)
	db := filepath.Join(t.TempDir(), "x.db")
	now := time.Now()
	ahead := 80 * time.Millisecond
	// The recording is of the last seconds by a clock that is 80 ms ahead.
	if err := recordFixture(db, "gpu-1-a", "gpu-1", now.Add(ahead-3*time.Second), 3); err != nil {
		t.Fatal(err)
	}
	right := serve(t, testDB(t), nil, nil, "--addr", ":0", "--no-tls", "--node", "gpu-7")
	off := serve(t, db, func() time.Time { return time.Now().Add(ahead) }, nil, "--addr", ":0", "--no-tls", "--node", "gpu-1")
	nodes := right.url + "," + off.url
	_, got, _ := command(t, nil, nil, "query", "--json", "--nodes", nodes, "SELECT 1")
	notes := strings.Join(rowsOf(t, got).Notes, "\n")
	if !strings.Contains(notes, "the clock of gpu-1 is 80") && !strings.Contains(notes, "the clock of gpu-1 is 79.") || !strings.Contains(notes, "ahead of the others'") || strings.Contains(notes, "gpu-7") {
		t.Errorf("notes: %s", notes)
	}
	_, got, _ = command(t, nil, nil, "query", "--json", "--nodes", nodes, "--clock-skew-threshold", "100ms", "SELECT 1")
	if notes := rowsOf(t, got).Notes; len(notes) > 0 {
		t.Errorf("within the threshold: %q", notes)
	}
	// The seconds counted by its clock ended now and in the two seconds before.
	from, to := now.Add(-time.Second), now
	_, got, said := command(t, nil, nil, "query", "--json", "--nodes", off.url, "--op", "cudaStreamSynchronize",
		"--from", from.UTC().Format(time.RFC3339Nano), "--to", to.UTC().Format(time.RFC3339Nano))
	var answer struct{ From, To time.Time }
	if err := json.Unmarshal([]byte(got), &answer); err != nil {
		t.Fatal(err)
	}
	if off := answer.From.Sub(from).Abs(); off > ahead/2 || answer.To.Sub(answer.From) != time.Second || !strings.Contains(got, `"calls": 50`) {
		t.Errorf("the window of its clock, from %v: %s %s", from.UTC(), got, said)
	}
}

// The user's own certificate is served and verified by its authority; a certificate and key that do
// not match are rejected before listening.
func TestDashboardOwnCertificate(t *testing.T) {
	testkit.LeakCheck(t)
	db := testDB(t)
	var pairs [2][2]string
	for i := range pairs {
		pairs[i] = certified(t)
	}
	s := serve(t, db, atTheEnd, nil, "--addr", ":0", "--tls-cert", pairs[0][0], "--tls-key", pairs[0][1])
	if code, _, said := command(t, nil, nil, "query", "--nodes", strings.TrimPrefix(s.url, "https://"), "--ca", pairs[0][0], "SELECT 1"); code != 0 {
		t.Errorf("known by its authority: %d %s", code, said)
	}
	for name, args := range map[string][]string{
		"another's key":   {"--tls-cert", pairs[0][0], "--tls-key", pairs[1][1]},
		"no key":          {"--tls-cert", pairs[0][0]},
		"with --no-tls":   {"--no-tls", "--tls-cert", pairs[0][0], "--tls-key", pairs[0][1]},
		"no such file":    {"--tls-cert", "/none", "--tls-key", "/none"},
		"open, no token":  {"--addr", "0.0.0.0:0"},
		"no address":      {"--addr", "8080x"},
		"taken":           {"--addr", strings.TrimPrefix(s.url, "https://")},
		"no such address": {"--addr", "192.0.2.1:0"},
	} {
		if code, _, said := command(t, nil, nil, append([]string{"dashboard", "--db", db}, args...)...); code == 0 || strings.Contains(said, "Serving") || strings.Count(said, "\n") != 2 {
			t.Errorf("%s: %d %s", name, code, said)
		}
	}
	if code, _, said := command(t, nil, map[string]string{"INGERO_TOKEN": "short"}, "dashboard", "--addr", "0.0.0.0:0"); code != 2 || !strings.Contains(said, "16 characters") {
		t.Errorf("a short token: %d %s", code, said)
	}
}

// A bound host name is a name of the server, even without a token.
func TestDashboardBoundName(t *testing.T) {
	testkit.LeakCheck(t)
	s := serve(t, testDB(t), atTheEnd, nil, "--addr", "localhost:0")
	if status, text := s.ask("GET", "/api/v1/time", "", func(r *http.Request) { r.Host = "localhost" }); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	if status, _ := s.ask("GET", "/api/v1/time", "", func(r *http.Request) { r.Host = "0.0.0.0" }); status != 403 {
		t.Errorf("0.0.0.0 is taken: %d", status)
	}
}

// A recording on two nodes is reported, since its calls count twice.
func TestQueryNodesTwice(t *testing.T) {
	testkit.LeakCheck(t)
	db := testDB(t)
	a := serve(t, db, nil, nil, "--addr", ":0", "--no-tls", "--node", "a")
	b := serve(t, db, nil, nil, "--addr", ":0", "--no-tls", "--node", "b")
	code, _, said := command(t, nil, nil, "query", "--nodes", a.url+","+b.url)
	if code != 0 || !strings.Contains(said, "Note: a and b both have recording gpu-7-one: its calls are counted twice") {
		t.Errorf("%d %s", code, said)
	}
}

// certified creates a certificate for this machine and its key, and returns both paths.
func certified(t *testing.T) (pair [2]string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "x"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"gpu-7.example"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	cert, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for i, b := range []*pem.Block{{Type: "CERTIFICATE", Bytes: cert}, {Type: "PRIVATE KEY", Bytes: der}} {
		pair[i] = filepath.Join(dir, fmt.Sprintf("%d.pem", i))
		if err := os.WriteFile(pair[i], pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return pair
}
