// Package certtest issues certificates for tests of TLS.
package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// CA is an authority with a key of its own.
type CA struct {
	File string // PEM file of its certificate

	tb   testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Pair are the PEM files of a certificate and its key.
type Pair struct{ Cert, Key string }

// New returns an authority, valid from an hour ago to tomorrow.
func New(tb testing.TB) *CA {
	tb.Helper()
	ca := &CA{tb: tb}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "authority of " + tb.Name()}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotAfter: time.Now().Add(24 * time.Hour),
	}
	pair := ca.Issue(template)
	ca.File = pair.Cert
	loaded := pair.Load(tb)
	key, ok := loaded.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		tb.Fatalf("the key is a %T", loaded.PrivateKey)
	}
	ca.cert, ca.key = loaded.Leaf, key
	return ca
}

// Server returns the certificate of a server on loopback, valid for an hour.
func (ca *CA) Server() Pair {
	ca.tb.Helper()
	return ca.Issue(&x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
}

// Client returns the certificate of a client with a common name, valid for an hour.
func (ca *CA) Client(name string) Pair {
	ca.tb.Helper()
	return ca.Issue(&x509.Certificate{Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
}

// Issue signs a certificate with a new key and a random serial number. It is valid from an hour ago for an hour, if the template does not say until when.
func (ca *CA) Issue(template *x509.Certificate) Pair {
	ca.tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(ca.tb, err)
	template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62))
	must(ca.tb, err)
	template.NotBefore = time.Now().Add(-time.Hour)
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	parent, signer := ca.cert, ca.key
	if parent == nil {
		parent, signer = template, key
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	must(ca.tb, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must(ca.tb, err)
	dir := ca.tb.TempDir()
	p := Pair{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")}
	must(ca.tb, os.WriteFile(p.Cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600))
	must(ca.tb, os.WriteFile(p.Key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	return p
}

// Load returns the certificate with its key.
func (p Pair) Load(tb testing.TB) tls.Certificate {
	tb.Helper()
	pair, err := tls.LoadX509KeyPair(p.Cert, p.Key)
	must(tb, err)
	return pair
}

// Replace replaces the files of p by those of another pair, one after the other, as tools that renew certificates do.
func (p Pair) Replace(tb testing.TB, by Pair) {
	tb.Helper()
	must(tb, os.Rename(by.Cert, p.Cert))
	must(tb, os.Rename(by.Key, p.Key))
}

// ClientConfig returns the configuration of a client that trusts ca, with the certificates, if there are any.
func (ca *CA) ClientConfig(certs ...tls.Certificate) *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, Certificates: certs}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
