package main

import (
	"context"
	"fmt"
	"time"

	"github.com/tailrace/tailrace/internal/retention"
)

// runArchive archives, once, the sessions that ended at least --archive-after ago; without that flag, a day ago.
func runArchive(ctx context.Context, t terminal, args []string) error {
	cfg, rest, err := arguments(t, "archive", args, nil)
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
	fmt.Fprintf(t.out, "%d sessions archived, %d cannot be, %d archives removed\n", r.Archived, r.NotArchivable, r.Removed)
	return err
}

// compactor returns the archiver of all tenants. Of several projectors one sweeps.
func (b *app) compactor() (*retention.Archiver, error) {
	const every = 10 * time.Minute
	l, err := retention.NewLease(b.js, b.cfg.layout(), "compact", every)
	if err != nil {
		return nil, err
	}
	return retention.NewArchiver(b.js, retention.ArchiverConfig{Layout: b.cfg.layout(), MinAge: b.cfg.ArchiveAfter, Interval: every, Lease: l.RunIfFree, Log: b.log})
}
