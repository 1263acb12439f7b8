package httpedge_test

import (
	"crypto/tls"
	"os"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/testkit/certtest"
)

// The files are replaced one after the other, and each handshake gets a matching pair: the old one until both are new. Equal modification times do not matter.
func TestCertificatesAreRenewed(t *testing.T) {
	served, next := newPair(t, "first"), newPair(t, "second")
	config, err := httpkit.ReloadingTLSConfig(served.Cert, served.Key, nil)
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
	moveFile(t, next.Cert, served.Cert)
	check("with the certificate of one and the key of the other", "first")
	check("and again", "first")
	moveFile(t, next.Key, served.Key)
	check("with both new", "second")
	if err := os.Remove(served.Key); err != nil {
		t.Fatal(err)
	}
	check("without a key", "second")
	third := newPair(t, "third")
	moveFile(t, third.Cert, served.Cert)
	moveFile(t, third.Key, served.Key)
	check("with a third pair", "third")
	if config.MinVersion != tls.VersionTLS12 {
		t.Errorf("from version %x on", config.MinVersion)
	}
}

func TestCertificatesMustFitAtFirst(t *testing.T) {
	a, b := newPair(t, "a"), newPair(t, "b")
	for _, files := range [][2]string{{a.Cert, b.Key}, {a.Cert, "no-such-file"}, {"no-such-file", a.Key}, {a.Key, a.Cert}} {
		if _, err := httpkit.ReloadingTLSConfig(files[0], files[1], nil); err == nil {
			t.Errorf("%v: no error", files)
		}
	}
}

// newPair writes a certificate and its key, with the same modification time as all other pairs.
func newPair(t *testing.T, name string) certtest.Pair {
	t.Helper()
	p := certtest.New(t).Client(name)
	for _, file := range []string{p.Cert, p.Key} {
		if err := os.Chtimes(file, time.Unix(1, 0), time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// moveFile replaces a file atomically.
func moveFile(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}
