package embed

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// RandomPort makes the server select a free port.
const RandomPort = -1

// Config is the configuration of a Server. StoreDir is required.
type Config struct {
	// StoreDir is the directory of the streams. It is created if it does not
	// exist. One process at a time can use it.
	StoreDir string

	// Port is the port for clients in other processes: a port number,
	// RandomPort, or 0 for none. InProcess works with every value.
	Port int

	// SyncInterval is the interval at which files are synced to disk, which
	// bounds the loss on a power failure. Defaults to the server's 2 minutes.
	SyncInterval time.Duration

	// SyncAlways syncs each write before its acknowledgement: a power failure
	// loses nothing, and publishing is considerably slower.
	SyncAlways bool

	// Log receives the log of the server: warnings and errors at their level,
	// notices at debug level. Nil disables logging.
	Log *slog.Logger
}

// host is loopback, because the server has no authentication.
const host = "127.0.0.1"

func (c Config) withDefaults() Config {
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return c
}

func (c Config) validate() error {
	switch {
	case c.StoreDir == "":
		return errors.New("StoreDir is empty, want the directory that holds the data")
	case c.Port < RandomPort || c.Port > math.MaxUint16:
		return fmt.Errorf("Port is %d, want 1 to 65535, 0 for none or -1 for any", c.Port)
	case c.SyncInterval < 0:
		return fmt.Errorf("SyncInterval is %s, want 0 (the server's default) or more", c.SyncInterval)
	}
	return nil
}

func (c Config) options() *server.Options {
	return &server.Options{
		ServerName:             "tailrace",
		Host:                   host,
		Port:                   c.Port,
		DontListen:             c.Port == 0,
		NoSigs:                 true, // the program handles signals
		JetStream:              true,
		DisableJetStreamBanner: true,
		StoreDir:               c.StoreDir,
		SyncInterval:           c.SyncInterval,
		SyncAlways:             c.SyncAlways,
	}
}
