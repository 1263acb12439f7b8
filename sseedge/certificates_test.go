package sseedge_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tailrace/tailrace/sseedge"
)

// The files are replaced one after the other, and each handshake gets a matching pair: the old one until both are new. Equal modification times do not matter.
func TestCertificatesAreRenewed(t *testing.T) {
	served, next := newPair(t, "first"), newPair(t, "second")
	config, err := sseedge.ReloadingTLSConfig(served.cert, served.key, nil)
	if err != nil {
		t.Fatal(err)
	}
	check := func(when, want string) {
		t.Helper()
		got, err := config.GetCertificate(&tls.ClientHelloInfo{})
		if err != nil || got.Leaf.Subject.CommonName != want {
			t.Errorf("%s: %v, %v, want %q", when, got.Leaf.Subject, err, want)
		}
	}
	check("at first", "first")
	moveFile(t, next.cert, served.cert)
	check("with the certificate of one and the key of the other", "first")
	check("and again", "first")
	moveFile(t, next.key, served.key)
	check("with both new", "second")
	if err := os.Remove(served.key); err != nil {
		t.Fatal(err)
	}
	check("without a key", "second")
	third := newPair(t, "third")
	moveFile(t, third.cert, served.cert)
	moveFile(t, third.key, served.key)
	check("with a third pair", "third")
	if config.MinVersion != tls.VersionTLS12 {
		t.Errorf("from version %x on", config.MinVersion)
	}
}

func TestCertificatesMustFitAtFirst(t *testing.T) {
	a, b := newPair(t, "a"), newPair(t, "b")
	for _, files := range [][2]string{{a.cert, b.key}, {a.cert, "no-such-file"}, {"no-such-file", a.key}, {a.key, a.cert}} {
		if _, err := sseedge.ReloadingTLSConfig(files[0], files[1], nil); err == nil {
			t.Errorf("%v: no error", files)
		}
	}
}

type pair struct{ cert, key string }

// newPair writes a self-signed certificate and its key.
func newPair(t *testing.T, name string) pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{"edge"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	p := pair{cert: filepath.Join(dir, "tls.crt"), key: filepath.Join(dir, "tls.key")}
	writePEM(t, p.cert, "CERTIFICATE", cert)
	writePEM(t, p.key, "PRIVATE KEY", der)
	return p
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
}

// moveFile replaces a file atomically.
func moveFile(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}
