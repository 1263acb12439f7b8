package main

import (
	"context"
	"fmt"

	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/retention"
)

// runArchive archives, once, the sessions that ended at least --archive-after ago; without that flag, a day ago.
func runArchive(ctx context.Context, t terminal, args []string) error {
	cfg, err := flagsOnly(t, "archive", args, nil)
	if err != nil {
		return err
	}
	b, err := connectCommand(ctx, t, natsauth.Projector, cfg)
	if err != nil {
		return err
	}
	defer b.close()
	archiver, err := b.archiver()
	if err != nil {
		return err
	}
	r, err := archiver.Sweep(ctx)
	fmt.Fprintf(t.out, "%d sessions archived, %d cannot be, %d archives removed\n", r.Archived, r.NotArchivable, r.Removed)
	return err
}

// archiver returns the archiver of all tenants.
func (b *app) archiver() (*retention.Archiver, error) {
	return retention.NewArchiver(b.js, retention.ArchiverConfig{Layout: b.cfg.layout(), MinAge: b.cfg.ArchiveAfter, Log: b.log})
}
