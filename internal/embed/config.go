package embed

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// RandomPort makes the server choose a free port.
const RandomPort = -1

// Config shapes a Server. StoreDir must be set; the rest has defaults.
type Config struct {
	// StoreDir holds the streams. It is created if it does not exist, and
	// belongs to one process at a time.
	StoreDir string

	// Host is the address to listen on. Defaults to 127.0.0.1: the server asks
	// nobody for a password.
	Host string

	// Port is where clients of other processes connect: a port, RandomPort,
	// or 0 for none. InProcess works in any case.
	Port int

	// SyncInterval is how often files are synced to the disk, which bounds
	// what a power cut costs. Defaults to the server's 2 minutes.
	SyncInterval time.Duration

	// SyncAlways syncs each write before it is acknowledged: a power cut
	// costs nothing, and publishing a good deal of its speed.
	SyncAlways bool

	// MaxStore is the size in bytes at which the server refuses to store more.
	// Defaults to three quarters of what is free on the disk.
	MaxStore int64

	// Log takes what the server says: its warnings and errors at their level,
	// its many notices at debug level. Defaults to slog.Default().
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Host == "" {
		c.Host = "127.0.0.1"
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
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
	case c.MaxStore < 0:
		return fmt.Errorf("MaxStore is %d, want 0 (most of the disk) or more", c.MaxStore)
	}
	return nil
}

func (c Config) options() *server.Options {
	return &server.Options{
		ServerName:             "tailrace",
		Host:                   c.Host,
		Port:                   c.Port,
		DontListen:             c.Port == 0,
		NoSigs:                 true, // signals are for the program around it
		JetStream:              true,
		DisableJetStreamBanner: true,
		StoreDir:               c.StoreDir,
		SyncInterval:           c.SyncInterval,
		SyncAlways:             c.SyncAlways,
		JetStreamMaxStore:      c.MaxStore,
	}
}
