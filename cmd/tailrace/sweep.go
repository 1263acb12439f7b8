package main

import (
	"context"
	"time"

	"github.com/tailrace/tailrace/internal/turns"
	"github.com/tailrace/tailrace/projector/erase"
	"github.com/tailrace/tailrace/projector/kvstore"
)

// sweep finishes deletions that somebody left, and removes snapshots that nobody
// has written to for SnapshotTTL, until ctx ends. It looks at every head, so it
// does that once in an hour, or often enough for a short TTL, and of several
// projectors one.
func (b *backbone) sweep(ctx context.Context, store *kvstore.Store) error {
	every := time.Hour
	if b.cfg.SnapshotTTL > 0 {
		every = min(every, max(time.Minute, b.cfg.SnapshotTTL/24))
	}
	turn, err := turns.New(b.js, b.cfg.layout(), "sweep", every)
	if err != nil {
		return err
	}
	eraser, err := erase.New(b.js, store, erase.Config{Layout: b.cfg.layout(), TTL: b.cfg.SnapshotTTL, Turn: turn.Do, Log: b.log})
	if err != nil {
		return err
	}
	return eraser.Run(ctx, every)
}
