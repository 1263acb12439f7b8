package sseedge

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
)

// Certificates returns a TLS configuration, 1.2 or later, that serves the
// certificate chain and the key of two PEM files. They are read now, and again
// whenever they have changed and a client comes: what renews certificates has
// nobody to tell. A pair that cannot be used is an error now and a line in the
// log later, when the one before it goes on being served.
func Certificates(certFile, keyFile string, log *slog.Logger) (*tls.Config, error) {
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
	read  version    // of the files that were read last, well or not
	valid *tls.Certificate
}

// version tells one state of the two files from another. The zero version is
// that of files that are not there.
type version struct{ cert, key os.FileInfo }

func (v version) equal(w version) bool { return sameFile(v.cert, w.cert) && sameFile(v.key, w.key) }

// sameFile looks at the time too, for a file that was written in place, and at
// more than the time, which is the same for two files of the same moment.
func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

// current is what a handshake gets. A version is tried once: while the two files
// are being replaced one by one they do not fit together, and the second of them
// makes another version.
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
		c.log.Warn("certificate cannot be read, the last one is served", "err", err)
	} else {
		c.log.Info("certificate was renewed", "until", c.valid.Leaf.NotAfter)
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

// version looks at the files before they are read: if they change in between,
// the next look shows it.
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
