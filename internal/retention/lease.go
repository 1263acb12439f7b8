package retention

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/wait"
	"github.com/tailrace/tailrace/subjects"
)

// Lease is the right to run a task once in an interval, which one of several processes gets. It is a key in the bucket of snapshots; the time of the key is
// the start of the last run of the task. Its methods may be called concurrently.
//
// A Lease saves work and is not mutual exclusion: a slow process may still run the task when the next one starts it, so the task must tolerate two
// concurrent runs.
type Lease struct {
	cfg     LeaseConfig
	client  *jsclient.Client
	stream  string
	subject string

	// now returns the time of the server, which has also set that of the key. The clock of this process may be wrong: if it is late by a day, the process
	// would not run the task for a day, and if it is early, each time.
	now func(ctx context.Context) (time.Time, error)
}

// LeaseConfig names the task of a Lease. All processes that share it must have the same LeaseConfig.
type LeaseConfig struct {
	// Layout names the bucket.
	Layout subjects.Layout

	// Name is the name of the task, a token.
	Name string

	// Interval is the time between two runs of the task.
	Interval time.Duration
}

// releaseTimeout limits the release after a failure.
const releaseTimeout = time.Second

// NewLease returns the Lease of a task. It does not call the server. The error names the invalid field of cfg.
func NewLease(js jetstream.JetStream, cfg LeaseConfig) (*Lease, error) {
	if err := checkLayout(cfg.Layout); err != nil {
		return nil, err
	}
	if cfg.Interval <= 0 {
		return nil, fmt.Errorf("Interval is %s, want more than 0", cfg.Interval)
	}
	key, err := names.LeaseKey(cfg.Name)
	if err != nil {
		return nil, fmt.Errorf("Name: %w", err)
	}
	bucket := names.Layout(cfg.Layout).Snapshots()
	l := &Lease{cfg: cfg, client: jsclient.New(js), stream: "KV_" + bucket, subject: "$KV." + bucket + "." + key}
	l.now = func(ctx context.Context) (time.Time, error) { return l.client.Now(ctx, l.stream) }
	return l, nil
}

// Do runs work, unless a process has started it less than nine tenths of the interval ago; the margin lets the process that started it last do so
// again after exactly one interval. If work fails, the lease is free at once; if the process crashes, after the interval. The error is that of work or of
// the server, and nil if the lease is taken.
func (l *Lease) Do(ctx context.Context, work func(context.Context) error) error {
	claimed, err := l.claim(ctx)
	if err != nil || claimed == 0 {
		return err
	}
	if err = work(ctx); err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
		defer cancel()
		_, failed := l.client.Purge(ctx, l.stream, l.subject, claimed+1)
		err = errors.Join(err, failed)
	}
	return err
}

// claim replaces the key by compare-and-set and returns its sequence, or 0 if the lease is taken.
func (l *Lease) claim(ctx context.Context) (uint64, error) {
	last, err := l.client.Last(ctx, l.stream, l.subject)
	if err != nil && !errors.Is(err, jsclient.ErrNotFound) {
		return 0, fmt.Errorf("read %s: %w", l.subject, err)
	}
	if err == nil {
		now, err := l.now(ctx)
		if err != nil {
			return 0, fmt.Errorf("time of %s: %w", l.stream, err)
		}
		if now.Sub(last.Stored) < l.cfg.Interval*9/10 {
			return 0, nil
		}
	}
	seq, err := l.client.Put(ctx, jsclient.Put{
		Msg: nats.NewMsg(l.client.PublishSubject(l.subject)), ExpectedSeq: &last.Seq, RetryTimeout: retryTimeout,
	})
	if errors.Is(err, jsclient.ErrConflict) {
		return 0, nil // another process has claimed it
	}
	if err != nil {
		return 0, fmt.Errorf("write %s: %w", l.subject, err)
	}
	return seq, nil
}

// sweepBackoff shapes the delays after sweeps that failed: the streams may be about to be created, and a sweep reads much.
var sweepBackoff = wait.Backoff{First: 10 * time.Second, Max: time.Minute}

// Every runs sweep once in each interval of l until ctx ends, in one of the processes that share l, and returns the error of ctx. It logs a sweep that fails
// to log, which may be nil, and retries it after 10 seconds, later after a minute. Meanwhile another process may run it.
func Every(ctx context.Context, l *Lease, sweep func(context.Context) error, log *slog.Logger) error {
	log = cmp.Or(log, slog.New(slog.DiscardHandler)).With(slog.String("lease", l.cfg.Name))
	return every(ctx, l.cfg.Interval, func(ctx context.Context) error { return l.Do(ctx, sweep) }, log)
}

func every(ctx context.Context, interval time.Duration, sweep func(context.Context) error, log *slog.Logger) error {
	for failures := 0; ; {
		delay := interval
		err := sweep(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			failures++
			delay = min(interval, sweepBackoff.Delay(failures))
			log.Warn("sweep failed", slog.Any("error", err))
		default:
			failures = 0
		}
		if err := wait.Sleep(ctx, delay); err != nil {
			return err
		}
	}
}

// retryTimeout is the retry budget of a write or purge, for example while the stream has no leader.
const retryTimeout = 10 * time.Second

// checkLayout returns an error that begins with the name of the field.
func checkLayout(l subjects.Layout) error {
	if err := l.Validate(); err != nil {
		return fmt.Errorf("Layout: %w", err)
	}
	return nil
}
