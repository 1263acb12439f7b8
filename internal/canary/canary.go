// Package canary watches whether the NATS server stores messages. A full disk, a directory that became read-only and a reached limit do not show in the
// connection, in the leaders or in the configuration of the streams: reads work, and writes are refused or get no response.
//
// A Canary asks the server about each stream every few seconds, see jsclient.Client.CheckStorage, and stores nothing. A message of its own in each stream would
// reach all readers of the log, also those of earlier versions, which count it as malformed; and a stream of its own shows little: a server that has failed to
// write one stream still writes the others, and the other way round.
package canary

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/wait"
)

// State is the state of the storage of a stream.
type State string

// The states.
const (
	Unknown    State = "unknown"     // not asked yet, no response, or no permission to ask
	OK         State = "ok"          // messages are stored
	Full       State = "full"        // a limit is reached; messages are stored again when there is space
	WriteError State = "write_error" // the server has failed to write its files; it stores messages again after a restart
)

// Status is the state of the storage of one stream.
type Status struct {
	Stream string
	State  State
	Err    error     // of each State but OK; a chunk.ErrNoStorage of Full and WriteError
	Since  time.Time // when the state began

	failedAt time.Time // when the storage failed, zero if it was OK since
}

// Stream is a stream to watch.
type Stream struct {
	Name   string
	Filter string // one of its subjects

	// OnlySpace leaves out the question whether the server has failed to write the stream, which the user of the connection may not ask: it is a purge.
	OnlySpace bool
}

// Config configures a Canary. Streams is required.
type Config struct {
	Streams []Stream

	// Interval is the time between two checks of all streams. Defaults to 3 seconds.
	Interval time.Duration

	// OnChange, if not nil, gets each new state of a stream. It is called by Run.
	OnChange func(Status)

	// Log, if not nil, gets a line when the storage of a stream fails and when it recovers.
	Log *slog.Logger
}

// checkTimeout bounds the check of one stream.
const checkTimeout = 2 * time.Second

// Canary is the component. Its methods may be called concurrently.
type Canary struct {
	client *jsclient.Client
	cfg    Config

	mu       sync.Mutex // guards statuses
	statuses map[string]Status
}

// New returns a Canary whose streams are Unknown until Run has asked about them.
func New(client *jsclient.Client, cfg Config) *Canary {
	cfg.Interval = cmp.Or(cfg.Interval, 3*time.Second)
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	c := &Canary{client: client, cfg: cfg, statuses: make(map[string]Status, len(cfg.Streams))}
	for _, s := range cfg.Streams {
		c.statuses[s.Name] = Status{Stream: s.Name, State: Unknown, Err: errors.New("not checked yet"), Since: time.Now()}
	}
	return c
}

// Run checks the streams until ctx ends, and returns its error.
func (c *Canary) Run(ctx context.Context) error {
	for {
		c.Check(ctx)
		if err := wait.Sleep(ctx, c.cfg.Interval); err != nil {
			return err
		}
	}
}

// Check checks all streams once.
func (c *Canary) Check(ctx context.Context) {
	var checks sync.WaitGroup
	for _, s := range c.cfg.Streams {
		if errors.Is(c.Status(s.Name).Err, nats.ErrPermissionViolation) {
			continue // each further request would be an error of the connection
		}
		checks.Go(func() {
			status := c.check(ctx, s)
			if ctx.Err() == nil {
				c.set(status)
			}
		})
	}
	checks.Wait()
}

// check asks about one stream.
func (c *Canary) check(ctx context.Context, s Stream) Status {
	status := Status{Stream: s.Name, State: OK, Since: time.Now()}
	status.Err = c.client.Attempt(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, checkTimeout)
		defer cancel()
		if s.OnlySpace {
			return c.client.CheckSpace(ctx, s.Name, s.Filter)
		}
		return c.client.CheckStorage(ctx, s.Name, s.Filter)
	})
	_, writeError := errors.AsType[*jsclient.WriteError](status.Err)
	switch {
	case status.Err == nil:
	case writeError:
		status.State = WriteError
	case errors.Is(status.Err, chunk.ErrNoStorage):
		status.State = Full
	default:
		status.State = Unknown
	}
	return status
}

// set stores a status, and reports it if the state is a new one.
func (c *Canary) set(s Status) {
	c.mu.Lock()
	before := c.statuses[s.Stream]
	if s.State == before.State {
		s.Since = before.Since
	}
	if s.failedAt = before.failedAt; s.State == OK {
		s.failedAt = time.Time{}
	} else if s.failedAt.IsZero() && s.State != Unknown {
		s.failedAt = s.Since
	}
	c.statuses[s.Stream] = s
	c.mu.Unlock()
	if s.State == before.State && !errors.Is(s.Err, nats.ErrPermissionViolation) {
		return
	}
	c.report(s, before)
	if c.cfg.OnChange != nil {
		c.cfg.OnChange(s)
	}
}

func (c *Canary) report(s, before Status) {
	switch {
	case s.State == WriteError:
		c.cfg.Log.Error("stream not writable", "stream", s.Stream, "error", s.Err, "recovery", "free space, then restart nats-server")
	case s.State == Full:
		c.cfg.Log.Error("stream not writable", "stream", s.Stream, "error", s.Err, "recovery", "automatic when there is space")
	case errors.Is(s.Err, nats.ErrPermissionViolation):
		c.cfg.Log.Warn("storage not watched", "stream", s.Stream, "error", s.Err)
	case s.State == OK && !before.failedAt.IsZero():
		c.cfg.Log.Info("stream writable again", "stream", s.Stream, "duration", s.Since.Sub(before.failedAt))
	}
}

// Status returns the status of a stream, with Unknown for one that is not watched.
func (c *Canary) Status(stream string) Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.statuses[stream]
	if !ok {
		return Status{Stream: stream, State: Unknown, Err: fmt.Errorf("stream %s is not watched", stream)}
	}
	return s
}

// Err returns the chunk.ErrNoStorage of the first of the streams that stores no messages, nil if all do or it is not known.
func (c *Canary) Err(streams ...string) error {
	for _, name := range streams {
		if s := c.Status(name); s.State == Full || s.State == WriteError {
			return s.Err
		}
	}
	return nil
}
