package httpkit

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
)

// ReloadingTLSConfig returns a TLS configuration, 1.2 or later, with the certificate chain and the key of two PEM files. It reads them now, and again at the
// first handshake after they have changed, so that tools that renew certificates need not notify this process. An invalid pair is an error now; later it
// is logged, and the previous pair stays in use.
func ReloadingTLSConfig(certFile, keyFile string, log *slog.Logger) (*tls.Config, error) {
	pair, err := newReloading("certificate", log, func() (*tls.Certificate, []any, error) {
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return nil, nil, fmt.Errorf("certificate %s with key %s: %w", certFile, keyFile, err)
		}
		return &pair, []any{"until", pair.Leaf.NotAfter}, nil
	}, certFile, keyFile)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair.current(), nil },
	}, nil
}

// VerifyClients returns a TLS configuration like cfg that asks clients for a certificate, and verifies it against the authorities in a PEM file. A client without
// a certificate is accepted, and http.Request.TLS has no VerifiedChains; the handshake with an invalid one fails. The file is read now, and again at the first
// handshake after it has changed; then a session that was verified by an authority that is not in it any more is not resumed. An invalid file is an error now;
// later it is logged, and the previous authorities stay in use. cfg must not change afterwards.
func VerifyClients(cfg *tls.Config, caFile string, log *slog.Logger) (*tls.Config, error) {
	forClient, err := newReloading("client authorities", log, func() (*tls.Config, []any, error) {
		text, err := os.ReadFile(caFile) //nolint:gosec // a setting names the file
		if err != nil {
			return nil, nil, err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return nil, nil, fmt.Errorf("client authorities %s: no certificate in the file, want PEM", caFile)
		}
		c := cfg.Clone()
		c.ClientCAs, c.ClientAuth = pool, tls.VerifyClientCertIfGiven
		c.NextProtos = []string{"h2", "http/1.1"} // net/http adds them to the configuration of the server only
		return c, nil, nil
	}, caFile)
	if err != nil {
		return nil, err
	}
	server := cfg.Clone()
	server.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return forClient.current(), nil }
	return server, nil
}

// reloading is what is loaded from files, and loaded again when they have changed.
type reloading[T any] struct {
	name  string // of the log messages
	files []string
	load  func() (value T, attrs []any, err error) // attrs are for the log
	log   *slog.Logger

	mu    sync.Mutex // guards the fields below
	read  []os.FileInfo
	valid T
}

// newReloading loads the files. log may be nil.
func newReloading[T any](name string, log *slog.Logger, load func() (T, []any, error), files ...string) (*reloading[T], error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	r := &reloading[T]{name: name, files: files, load: load, log: log}
	var err error
	if r.read, err = r.version(); err != nil {
		return nil, err
	}
	if r.valid, _, err = load(); err != nil {
		return nil, err
	}
	return r, nil
}

// sameFile compares the time for a file that was written in place, and more than the time for two files that were written at the same time.
func sameFile(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

// current returns the value for a handshake. Each version of the files is tried once: while two files are replaced one after the other they do not match, and
// replacing the second gives another version.
func (r *reloading[T]) current() T {
	r.mu.Lock()
	defer r.mu.Unlock()
	version, err := r.version()
	if slices.EqualFunc(version, r.read, sameFile) {
		return r.valid
	}
	r.read = version
	var value T
	var attrs []any
	if err == nil {
		value, attrs, err = r.load()
	}
	if err != nil {
		r.log.Warn(r.name+" reload failed", "error", err)
		return r.valid
	}
	r.valid = value
	r.log.Info(r.name+" renewed", attrs...)
	return r.valid
}

// version identifies one state of the files, nil if one is missing. It is taken before they are read: if they change in between, the next handshake detects it.
func (r *reloading[T]) version() ([]os.FileInfo, error) {
	version := make([]os.FileInfo, len(r.files))
	for i, file := range r.files {
		var err error
		if version[i], err = os.Stat(file); err != nil {
			return nil, err
		}
	}
	return version, nil
}
