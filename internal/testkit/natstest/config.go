package natstest

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
)

// An Option configures a server before it starts.
type Option func(*config)

// Listen makes an in-process server listen on a loopback port, so that its URL
// is not empty. Processes and clusters always listen.
func Listen() Option { return func(c *config) { c.Listen = true } }

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

// config is the configuration of a server. Child processes get it as JSON, so
// it contains plain values only.
type config struct {
	Name        string `json:"name"`
	StoreDir    string `json:"storeDir"`
	Listen      bool   `json:"listen"`
	Port        int    `json:"port"` // 0 if it does not listen
	NoJetStream bool   `json:"noJetStream"`
	MaxPayload  int32  `json:"maxPayload"`
	MaxStore    int64  `json:"maxStore"`
	Text        string `json:"text"`

	FailOnViolation bool `json:"failOnViolation"`

	Cluster     string `json:"cluster"` // name; empty for a single server
	ClusterPort int    `json:"clusterPort"`
	Routes      []int  `json:"routes"` // cluster ports of all members
}

func newConfig(tb testing.TB, opts []Option) config {
	tb.Helper()
	c := config{Name: "test", MaxStore: 8 << 30}
	for _, o := range slices.Concat(defaults, opts) {
		o(&c)
	}
	if c.StoreDir == "" {
		c.StoreDir = tb.TempDir()
	}
	return c
}

const loopback = "127.0.0.1"

// serverOptions returns the options of nats-server for c.
func (c config) serverOptions() (*server.Options, error) {
	o := &server.Options{}
	if c.Text != "" {
		if err := o.ProcessConfigString(c.Text); err != nil {
			return nil, fmt.Errorf("server configuration: %w", err)
		}
	}
	o.ServerName = c.Name
	o.NoSigs = true // the test handles signals
	o.Host = loopback
	o.Port = c.Port
	o.DontListen = !c.Listen
	o.JetStream = !c.NoJetStream
	o.DisableJetStreamBanner = true
	o.StoreDir = c.StoreDir
	o.JetStreamMaxMemory = 256 << 20
	o.JetStreamMaxStore = c.MaxStore
	if c.MaxPayload > 0 {
		o.MaxPayload = c.MaxPayload
	}
	if c.Cluster != "" {
		c.joinCluster(o)
	}
	return o, nil
}

func (c config) joinCluster(o *server.Options) {
	o.Tags.Add(c.Name) // so that a stream can be placed
	o.Cluster.Name = c.Cluster
	o.Cluster.Host = loopback
	o.Cluster.Port = c.ClusterPort
	o.Cluster.NoAdvertise = true // clients use only the addresses they were given, so that they cannot bypass a Proxy
	for _, port := range c.Routes {
		o.Routes = append(o.Routes, &url.URL{Scheme: "nats-route", Host: loopback + ":" + strconv.Itoa(port)})
	}
}
