package consumers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// attemptTime bounds one request. A stalled server may still carry it out later.
	attemptTime = 2 * time.Second

	firstPause   = 20 * time.Millisecond
	longestPause = 500 * time.Millisecond
)

// retry calls try until it succeeds, fails for good, or patience is over; no
// patience is for as long as ctx lasts. Each try has a context of its own, so
// that one request lost in a broken connection does not use up all the time.
func (a *api) retry(ctx context.Context, patience time.Duration, try func(context.Context) error) error {
	began := time.Now()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := a.attempt(ctx, try)
		switch {
		case err == nil || final(err):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case patience > 0 && time.Since(began) > patience:
			return fmt.Errorf("NATS did not answer within %s: %w", patience, err)
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

func (a *api) attempt(ctx context.Context, try func(context.Context) error) error {
	if !a.nc.IsConnected() {
		// A request made now would wait in the client and be carried out after
		// the reconnect, when its answer interests nobody.
		if a.nc.IsClosed() {
			return nats.ErrConnectionClosed
		}
		return nats.ErrDisconnected
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	return try(ctx)
}

// final reports whether asking again would give the same answer.
func final(err error) bool {
	var api *jetstream.APIError
	switch {
	case errors.Is(err, errMissing),
		errors.Is(err, nats.ErrConnectionClosed),
		errors.Is(err, nats.ErrPermissionViolation),
		errors.Is(err, nats.ErrInvalidConnection):
		return true
	case errors.As(err, &api):
		return api.Code >= 400 && api.Code < 500 && api.Code != 408
	}
	var jsErr jetstream.JetStreamError
	if errors.As(err, &jsErr) && jsErr.APIError() != nil {
		return jsErr.APIError().Code < 500
	}
	return false
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
