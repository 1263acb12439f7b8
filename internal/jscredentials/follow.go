package jscredentials

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/jsreader"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/revocation"
	"github.com/tailrace/tailrace/internal/wait"
)

// Set is what Follow fills. Its methods are called by one goroutine.
type Set interface {
	// Apply adds a revocation, or removes it if it is Lifted.
	Apply(revocation.Revocation)

	// Loaded says that all revocations that existed when Follow began were applied.
	Loaded()
}

// backoff is the delay before the bucket is read again from its beginning. Lost connections do not need that.
var backoff = wait.Backoff{First: jsclient.ReadBackoff.First, Max: 5 * time.Second}

// Follow applies all revocations to a set, and then each new one as it is stored. It returns the error of ctx, or nats.ErrConnectionClosed; it lasts over
// everything else: lost connections, dead servers, and a bucket that is missing, recreated or restored from an older copy. It removes nothing from the set
// then, so that a revocation that is known holds.
func (s *Store) Follow(ctx context.Context, set Set) error {
	for n := 1; ; n++ {
		loaded, err := s.follow(ctx, set)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, nats.ErrConnectionClosed):
			return err
		}
		if loaded {
			n = 1
		}
		s.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "revocations are read again", slog.Any("error", err))
		if wait.Sleep(ctx, backoff.Delay(n)) != nil {
			return ctx.Err()
		}
	}
}

// follow reads the bucket from its beginning, and reports whether it has read all that there was.
func (s *Store) follow(ctx context.Context, set Set) (loaded bool, err error) {
	state, last, err := s.scan(ctx, names.RevocationKeys(), set.Apply)
	if err != nil {
		return false, err
	}
	set.Loaded()
	o := jsreader.NewOrdered(s.api, jsreader.OrderedConfig{
		Stream: s.stream(), Filter: s.subject(names.RevocationKeys()), After: last, Epoch: state.Epoch, Live: true, Log: s.cfg.Log,
	})
	o.Resume() // if the bucket was restored from an older copy since the scan, its new revocations have sequences that were read already
	for e, err := range o.All(ctx) {
		if err != nil {
			return true, err
		}
		s.apply(ctx, &e, set.Apply)
	}
	return true, nil
}

// scan applies the revocations of a filter to the present end of the bucket, and returns the state of the bucket and the sequence up to which it has read. That
// is not the end in the state: what is stored after the consumer was created and before the state was read is in neither, and would never be applied.
func (s *Store) scan(ctx context.Context, filter string, apply func(revocation.Revocation)) (state jsclient.State, last uint64, err error) {
	o := jsreader.NewOrdered(s.api, jsreader.OrderedConfig{Stream: s.stream(), Filter: s.subject(filter), Log: s.cfg.Log})
	for e, err := range o.All(ctx) {
		if err != nil {
			return state, 0, err
		}
		s.apply(ctx, &e, apply)
	}
	return o.State(), o.Last(), nil
}

func (s *Store) apply(ctx context.Context, e *jsreader.Entry, apply func(revocation.Revocation)) {
	r, err := revocation.Decode(strings.TrimPrefix(e.Subject, s.subject("")), e.Data, e.Stored)
	if err != nil { // of a later version, or of a user with access to NATS
		s.cfg.Log.LogAttrs(ctx, slog.LevelError, "revocation ignored", slog.Uint64("seq", e.Seq), slog.Any("error", err))
		return
	}
	apply(r)
}

// List returns the revocations of a tenant that hold, oldest first. One that this build cannot read is left out, and logged.
func (s *Store) List(ctx context.Context, tenant string) ([]revocation.Revocation, error) {
	filter, err := names.RevocationTenantKeys(tenant)
	if err != nil {
		return nil, fmt.Errorf("list revocations: %w", err)
	}
	var all []revocation.Revocation
	if _, _, err := s.scan(ctx, filter, func(r revocation.Revocation) {
		if !r.Lifted {
			all = append(all, r)
		}
	}); err != nil {
		return nil, fmt.Errorf("list revocations: %w", err)
	}
	return all, nil
}
