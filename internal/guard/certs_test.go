package guard

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// pair writes the certificate and key of c to two files.
func pair(t *testing.T, c *Certificates, dir string) (cert, key string) {
	t.Helper()
	got, err := c.current()
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(got.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	if err := errors.Join(os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: got.Certificate[0]}), 0o600),
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600)); err != nil {
		t.Fatal(err)
	}
	return cert, key
}

// A certificate is valid for a day, is renewed before it expires, and keeps its key.
func TestSelfSignedRenews(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	path := filepath.Join(t.TempDir(), "sub", "key")
	c, err := SelfSigned(path, []string{"gpu-7", "10.0.0.7"}, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	first, print := c.last, c.Fingerprint()
	if d := first.Leaf.NotAfter.Sub(first.Leaf.NotBefore); d != 24*time.Hour {
		t.Errorf("it is good for %s", d)
	}
	for _, step := range []struct {
		after time.Duration
		same  bool
	}{{time.Hour, true}, {22 * time.Hour, true}, {23 * time.Hour, false}, {-48 * time.Hour, false}} {
		now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC).Add(step.after)
		got, err := c.current()
		if err != nil || (got == first) != step.same || now.Before(got.Leaf.NotBefore) || !now.Before(got.Leaf.NotAfter) {
			t.Errorf("after %s: the same %v, %s to %s, %v", step.after, got == first, got.Leaf.NotBefore, got.Leaf.NotAfter, err)
		}
		if c.Fingerprint() != print {
			t.Errorf("after %s its fingerprint is another", step.after)
		}
	}
	for name, want := range map[string]bool{"gpu-7": true, "GPU-7": true, "10.0.0.7": true, "10.0.0.8": false, "evil.example": false, "": false} {
		if c.covers(name) != want {
			t.Errorf("it covers %q: %v", name, !want)
		}
	}
	again, err := SelfSigned(path, nil, time.Now)
	if err != nil || again.Fingerprint() != print {
		t.Errorf("started anew it is another: %v", err)
	}
	if s, err := os.Stat(path); err != nil || s.Mode().Perm() != 0o600 {
		t.Errorf("the key is %v (%v)", s.Mode(), err)
	}
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := SelfSigned(path, nil, time.Now); err == nil || !strings.Contains(err.Error(), "contains no key") {
		t.Errorf("of a damaged key: %v", err)
	}
	if c, err := SelfSigned("", nil, time.Now); err != nil || c.Fingerprint() == print {
		t.Errorf("without a file: %v", err)
	}
}

// Replaced files are reread; while they do not match, the last pair stays.
func TestFilesAreReadAnew(t *testing.T) {
	dir := t.TempDir()
	one, err := SelfSigned("", nil, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	cert, key := pair(t, one, dir)
	c, err := Files(cert, key)
	if err != nil || c.Fingerprint() != one.Fingerprint() {
		t.Fatalf("%v", err)
	}
	two, err := SelfSigned("", nil, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	pair(t, two, dir)
	if err := os.Chtimes(cert, time.Time{}, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if c.Fingerprint() != two.Fingerprint() {
		t.Error("the new one is not shown")
	}
	if err := errors.Join(os.WriteFile(cert, []byte("x"), 0o600), os.Chtimes(cert, time.Time{}, time.Now().Add(2*time.Hour))); err != nil {
		t.Fatal(err)
	}
	if c.Fingerprint() != two.Fingerprint() {
		t.Error("the last one is not shown while there is no other")
	}
	if _, err := Files(cert, key); err == nil {
		t.Error("a damaged file is taken")
	}
}
