package export

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tailrace/tailrace/internal/wait"
	"github.com/tailrace/tailrace/sink/observe"
	"github.com/tailrace/tailrace/subjects"
)

// MaxUnconfirmed is the largest number of records that were read and whose rows are not delivered.
const MaxUnconfirmed = 10_000

// Config shapes an Export.
type Config struct {
	Layout subjects.Layout

	// Name names the durable consumers, "sink-<Name>". Programs with the same name share the work: one of them reads a partition.
	Name string

	// Tenant limits the export to one tenant. Empty is all.
	Tenant string

	// FromNow makes an export that is used for the first time begin at the present end of the log. Otherwise it begins at the oldest record.
	FromNow bool

	// NoFollow ends Run when everything is delivered that the log has when Run begins.
	NoFollow bool

	// Observe is the Config of the folders. Position is set for each.
	Observe observe.Config

	// Select reports whether a row is delivered.
	Select func(Row) bool

	// Deliver delivers rows, at most Batch of them. A *RefusedError is final for one row; of several, each half is delivered again. Other errors are tried again,
	// a *RetryError not before its time. It is called concurrently for different lanes.
	Deliver func(ctx context.Context, rows []Row) error

	// DeadLetters keeps the rows that could not be delivered. Nil only logs and counts them.
	DeadLetters *DeadLetters

	// Lanes is the number of deliveries at the same time; the rows of a tree of sessions are in one lane. Defaults to 1.
	Lanes int

	// Batch is the most rows of a delivery, and Every the longest time that a row waits for others. They default to 1 row, and no time.
	Batch int
	Every time.Duration

	// Refusals is how often a row is delivered that is refused, unless the first refusal is Final. Defaults to 1.
	Refusals int

	// GiveUp is the time from the reading of a row after which it is not tried again. Defaults to 24 hours.
	GiveUp time.Duration

	// Delays are those between the attempts of a delivery. They default to 1 s to 5 min with jitter. Max also limits what a *RetryError asks for.
	Delays wait.Backoff

	// Metrics, if not nil, counts what is delivered.
	Metrics *Metrics

	// Log gets warnings. Nil disables logging.
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	c.Lanes, c.Batch, c.Refusals = cmp.Or(c.Lanes, 1), cmp.Or(c.Batch, 1), cmp.Or(c.Refusals, 1)
	c.GiveUp = cmp.Or(c.GiveUp, 24*time.Hour)
	c.Delays = cmp.Or(c.Delays, wait.Backoff{First: time.Second, Max: 5 * time.Minute, Jitter: true})
	c.Metrics = cmp.Or(c.Metrics, &Metrics{})
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return c
}

func (c Config) validate() error {
	switch {
	case c.Name == "":
		return errors.New("Name is empty")
	case c.Select == nil || c.Deliver == nil:
		return errors.New("a function is missing, want Select and Deliver")
	case c.Lanes < 1 || c.Batch < 1 || c.Refusals < 1:
		return fmt.Errorf("want at least 1, have %d Lanes, %d as Batch, %d Refusals", c.Lanes, c.Batch, c.Refusals)
	case c.GiveUp < 0 || c.Every < 0:
		return fmt.Errorf("GiveUp and Every are %s and %s, want at least 0", c.GiveUp, c.Every)
	}
	return nil
}

// RefusedError reports that the receiver does not accept the rows. If it is Final, they are not delivered again.
type RefusedError struct {
	Cause error
	Final bool
}

func (e *RefusedError) Error() string { return "refused: " + e.Cause.Error() }
func (e *RefusedError) Unwrap() error { return e.Cause }

// RetryError reports that the receiver asks for a delay.
type RetryError struct {
	After time.Duration
	Cause error
}

func (e *RetryError) Error() string { return e.Cause.Error() }
func (e *RetryError) Unwrap() error { return e.Cause }
