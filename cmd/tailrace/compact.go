package main

import (
	"context"
	"fmt"
	"time"

	"github.com/tailrace/tailrace/internal/compact"
	"github.com/tailrace/tailrace/internal/turns"
)

// runCompact archives, once, what has ended before --archive-after. Without that
// it is what has ended before a day.
func runCompact(ctx context.Context, t terminal, args []string) error {
	cfg, rest, err := arguments(t, "compact", args, nil)
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return usageError{fmt.Errorf("unexpected argument %q", rest[0])}
	}
	b, err := connect(cfg, cfg.logger(t.err))
	if err != nil {
		return err
	}
	defer b.close()
	if err := b.verifyTopology(ctx); err != nil {
		return err
	}
	compactor, err := b.compactor()
	if err != nil {
		return err
	}
	r, err := compactor.Sweep(ctx)
	fmt.Fprintf(t.out, "%d sessions archived, %d cannot be, %d archives removed\n", r.Archived, r.Unfit, r.Removed)
	return err
}

// compactor archives sessions of all tenants, of several projectors one.
func (b *backbone) compactor() (*compact.Compactor, error) {
	const every = 10 * time.Minute
	turn, err := turns.New(b.js, b.cfg.layout(), "compact", every)
	if err != nil {
		return nil, err
	}
	return compact.New(b.js, compact.Config{Layout: b.cfg.layout(), After: b.cfg.ArchiveAfter, Every: every, Turn: turn.Do, Log: b.log})
}
