package guard

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Lifetime of a self-signed certificate, and when to renew it.
const (
	selfLife  = 24 * time.Hour
	selfRenew = time.Hour       // before it expires
	selfEarly = 5 * time.Minute // for clocks that are behind
)

// Certificates are a server's certificate and its renewals. They are safe for concurrent use.
type Certificates struct {
	next func(*tls.Certificate) (*tls.Certificate, error) // returns the current one while it is valid

	mu   sync.Mutex
	last *tls.Certificate
}

// Files reads certificate and key from two PEM files, and rereads them when the first has changed.
func Files(cert, key string) (*Certificates, error) {
	var read time.Time
	c := &Certificates{next: func(last *tls.Certificate) (*tls.Certificate, error) {
		s, err := os.Stat(cert)
		if err != nil || last != nil && s.ModTime().Equal(read) {
			return last, err
		}
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return last, err
		}
		read = s.ModTime()
		return &pair, nil
	}}
	_, err := c.current()
	return c, err
}

// SelfSigned makes self-signed certificates, each valid for 24 hours. Their P-256 key is kept in
// the file at path, so that its fingerprint continues to identify the server. With an empty path
// the key is not kept. names are host names and addresses.
func SelfSigned(path string, names []string, now func() time.Time) (*Certificates, error) {
	key, err := keyAt(path)
	if err != nil {
		return nil, err
	}
	c := &Certificates{next: func(last *tls.Certificate) (*tls.Certificate, error) {
		if last != nil && now().Before(last.Leaf.NotAfter.Add(-selfRenew)) && now().After(last.Leaf.NotBefore) {
			return last, nil
		}
		return signed(key, names, now())
	}}
	_, err = c.current()
	return c, err
}

func signed(key *ecdsa.PrivateKey, names []string, now time.Time) (*tls.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	t := &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: "ingero"}, NotBefore: now.Add(-selfEarly), NotAfter: now.Add(selfLife - selfEarly),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, n)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("sign a certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
}

// keyAt reads the key at path, or creates one that only its owner can read.
func keyAt(path string) (*ecdsa.PrivateKey, error) {
	if path != "" {
		text, err := os.ReadFile(path)
		if err == nil {
			return parseKey(path, text)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil || path == "" {
		return key, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return key, errors.Join(pem.Encode(f, &pem.Block{Type: "PRIVATE KEY", Bytes: der}), f.Close())
}

func parseKey(path string, text []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s contains no key", path)
	}
	any, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	key, ok := any.(*ecdsa.PrivateKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, fmt.Errorf("%s contains no P-256 key", path)
	}
	return key, nil
}

// current returns the certificate to present: the last one if a renewal fails.
func (c *Certificates) current() (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next, err := c.next(c.last)
	if next == nil {
		next = c.last
	}
	if next == nil {
		return nil, err
	}
	if next.Leaf == nil {
		if next.Leaf, err = x509.ParseCertificate(next.Certificate[0]); err != nil {
			return c.last, err
		}
	}
	c.last = next
	return next, nil
}

func (c *Certificates) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return c.current()
}

// covers reports whether the certificate is valid for a name.
func (c *Certificates) covers(name string) bool {
	cert, err := c.current()
	return err == nil && name != "" && cert.Leaf.VerifyHostname(name) == nil
}

// Fingerprint returns the fingerprint of the certificate's key: see [Fingerprint].
func (c *Certificates) Fingerprint() string {
	cert, err := c.current()
	if err != nil {
		return ""
	}
	return Fingerprint(cert.Leaf)
}

// Fingerprint identifies the key of a certificate: "sha256:" and the hash of its
// SubjectPublicKeyInfo in hexadecimal. It is the same for all certificates of a key.
func Fingerprint(c *x509.Certificate) string {
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:])
}
