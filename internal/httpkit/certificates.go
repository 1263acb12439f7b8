package httpkit

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
)

// ReloadingTLSConfig returns a TLS configuration, 1.2 or later, with the certificate chain and the key of two PEM files. It reads them now, and again at the
// first handshake after they have changed, so that tools that renew certificates need not notify this process. An invalid pair is an error now; later it
// is logged, and the previous pair stays in use.
func ReloadingTLSConfig(certFile, keyFile string, log *slog.Logger) (*tls.Config, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	c := &certificates{certFile: certFile, keyFile: keyFile, log: log}
	if err := c.load(); err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current(), nil },
	}, nil
}

type certificates struct {
	certFile, keyFile string
	log               *slog.Logger

	mu    sync.Mutex // guards the fields below
	read  version    // of the files that were read last, valid or not
	valid *tls.Certificate
}

// version identifies one state of the two files. The zero version is that of missing files.
type version struct{ cert, key os.FileInfo }

func (v version) equal(w version) bool { return sameFile(v.cert, w.cert) && sameFile(v.key, w.key) }

// sameFile compares the time for a file that was written in place, and more than the time for two files that were written at the same time.
func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

// current returns the certificate for a handshake. Each version is tried once: while the two files are replaced one after the other they do not match, and
// replacing the second gives another version.
func (c *certificates) current() *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	version, err := c.version()
	if version.equal(c.read) {
		return c.valid
	}
	if c.read = version; err == nil {
		err = c.loadPair()
	}
	if err != nil {
		c.log.Warn("certificate reload failed", "error", err)
	} else {
		c.log.Info("certificate renewed", "until", c.valid.Leaf.NotAfter)
	}
	return c.valid
}

func (c *certificates) load() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var err error
	if c.read, err = c.version(); err != nil {
		return err
	}
	return c.loadPair()
}

// version is taken before the files are read: if they change in between, the next handshake detects it.
func (c *certificates) version() (version, error) {
	cert, err := os.Stat(c.certFile)
	if err != nil {
		return version{}, err
	}
	key, err := os.Stat(c.keyFile)
	if err != nil {
		return version{}, err
	}
	return version{cert, key}, nil
}

func (c *certificates) loadPair() error {
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("certificate %s with key %s: %w", c.certFile, c.keyFile, err)
	}
	c.valid = &pair
	return nil
}
