package main

import (
	"context"
	"time"

	"github.com/tailrace/tailrace/projector/erase"
	"github.com/tailrace/tailrace/projector/kvstore"
)

// sweep finishes deletions that somebody left, and removes snapshots that nobody
// has written to for SnapshotTTL, until ctx ends. It looks at every head, so it
// does that once in an hour, or often enough for a short TTL.
func (b *backbone) sweep(ctx context.Context, store *kvstore.Store) error {
	eraser, err := erase.New(b.js, store, erase.Config{Layout: b.cfg.layout(), TTL: b.cfg.SnapshotTTL, Log: b.log})
	if err != nil {
		return err
	}
	every := time.Hour
	if b.cfg.SnapshotTTL > 0 {
		every = min(every, max(time.Minute, b.cfg.SnapshotTTL/24))
	}
	return eraser.Run(ctx, every)
}
