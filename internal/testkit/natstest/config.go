package natstest

import (
	"slices"
	"testing"
)

// An Option configures a server before it starts.
type Option func(*config)

// StoreDir keeps the files in dir instead of a temporary directory of the test.
func StoreDir(dir string) Option { return func(c *config) { c.StoreDir = dir } }

// WithoutJetStream starts a NATS server without JetStream.
func WithoutJetStream() Option { return func(c *config) { c.NoJetStream = true } }

// MaxPayload sets the maximum message size in bytes; the server's default is 1
// MiB.
func MaxPayload(bytes int32) Option { return func(c *config) { c.MaxPayload = bytes } }

// MaxStore sets the size in bytes at which the server rejects further messages,
// as with a full disk. Defaults to 8 GiB.
func MaxStore(bytes int64) Option { return func(c *config) { c.MaxStore = bytes } }

// ServerConfig adds a fragment of a nats-server configuration file: accounts,
// users, mappings, limits. The other options take precedence over it.
func ServerConfig(text string) Option { return func(c *config) { c.Text = text } }

// FailOnViolation fails the test at its end if the server has refused a request or a
// subscription because the user lacks the permission.
func FailOnViolation() Option { return func(c *config) { c.FailOnViolation = true } }

// defaults are the options of all servers of the test binary, before those of a test.
var defaults []Option

// SetDefaults sets the options of all servers of the test binary, before those of a
// test. It is called by TestMain.
func SetDefaults(opts ...Option) { defaults = opts }

// config is the configuration of a server.
type config struct {
	ProcessConfig

	FailOnViolation bool
}

func newConfig(tb testing.TB, opts []Option) config {
	tb.Helper()
	c := config{ProcessConfig: ProcessConfig{Name: "test", MaxStore: 8 << 30}}
	for _, o := range slices.Concat(defaults, opts) {
		o(&c)
	}
	if c.StoreDir == "" {
		c.StoreDir = tb.TempDir()
	}
	return c
}

// Loopback is the address of all servers.
const Loopback = "127.0.0.1"
