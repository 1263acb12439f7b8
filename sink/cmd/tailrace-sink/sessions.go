package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/sink/row"
	"github.com/tailrace/tailrace/sink/run"
	"github.com/tailrace/tailrace/subjects"
)

// eraseFlags are the flags of erase besides the settings.
type eraseFlags struct {
	root, session string
	deleted       bool
}

func (f *eraseFlags) add(flags *flag.FlagSet) {
	flags.StringVar(&f.root, "root", "", "")
	flags.StringVar(&f.session, "session", "", "")
	flags.BoolVar(&f.deleted, "deleted", false, "")
}

// erase deletes rows of sessions from the store, beside a sink that runs.
func erase(ctx context.Context, args []string, out, errs io.Writer) error {
	var of eraseFlags
	cfg, rest, err := load(args, of.add)
	switch {
	case err != nil:
		return usageOf(err)
	case len(rest) > 0:
		return usageError{fmt.Errorf("unknown argument %q", rest[0])}
	case of.deleted && (of.root != "" || of.session != ""):
		return usageError{errors.New("deleted is set with root or session, want one of them")}
	case !of.deleted && (cfg.Tenant == "" || of.root == ""):
		return usageError{errors.New("want --tenant and --root of the session, or --deleted")}
	}
	if !of.deleted {
		s := row.SessionOf(cfg.Tenant, of.root, of.session)
		if err := names.CheckSession(s); err != nil {
			return usageError{err}
		}
	}
	return cfg.withSink(ctx, errs, func(ctx context.Context, sink *run.Sink) error {
		var n int
		if of.deleted {
			n, err = sink.EraseDeleted(ctx)
		} else {
			n, err = sink.EraseByHand(ctx, row.SessionOf(cfg.Tenant, of.root, of.session))
		}
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "sessions erased: %d\n", n)
		return err
	})
}

// report is what check prints of a partition.
type report struct {
	Partition int    `json:"partition"`
	Position  uint64 `json:"position"`
	History   string `json:"history"`
	Behind    uint64 `json:"behind"`
	Present   int    `json:"present"`
	Deleted   int    `json:"deleted"`
	Absent    int    `json:"absent"`
}

// check prints what the store has, and fails if it has sessions that were deleted.
func check(ctx context.Context, args []string, out, errs io.Writer) error {
	asJSON := false
	cfg, rest, err := load(args, func(flags *flag.FlagSet) { flags.BoolVar(&asJSON, "json", false, "") })
	switch {
	case err != nil:
		return usageOf(err)
	case len(rest) > 0:
		return usageError{fmt.Errorf("unknown argument %q", rest[0])}
	}
	return cfg.withSink(ctx, errs, func(ctx context.Context, sink *run.Sink) error {
		states, err := sink.Check(ctx)
		if err != nil {
			return err
		}
		gone := 0
		for _, s := range states {
			r := report{s.Position.Partition, uint64(s.Position.Seq), s.Position.History, s.Behind, s.Sessions.Present, s.Sessions.Deleted, s.Sessions.Absent}
			if asJSON {
				err = json.NewEncoder(out).Encode(r)
			} else {
				_, err = fmt.Fprintf(out, "partition %d: position %d, %d messages behind; sessions: %d present, %d deleted, %d absent\n", r.Partition, r.Position, r.Behind, r.Present, r.Deleted, r.Absent)
			}
			if err != nil {
				return err
			}
			gone += r.Deleted + r.Absent
		}
		if gone > 0 {
			return fmt.Errorf("the store has %d sessions that are deleted, or without a snapshot; `tailrace-sink erase --deleted` erases them", gone)
		}
		return nil
	})
}

// withSink calls do with a sink that does not run.
func (c config) withSink(ctx context.Context, errs io.Writer, do func(context.Context, *run.Sink) error) (err error) {
	if c.receiver() != "" {
		return usageError{errors.New("to is a receiver, which keeps nothing")}
	}
	log := c.logger(errs)
	c.noFollow = true
	st, err := c.openStore(log)
	if err != nil {
		return usageError{err}
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	return c.withLog(ctx, errs, func(ctx context.Context, js jetstream.JetStream, layout subjects.Layout) error {
		sink, err := run.New(js, run.Config{Layout: layout, Store: st, Tenant: c.Tenant, Log: log})
		if err != nil {
			return usageError{err}
		}
		if err := c.hasPosition(ctx, st, layout.Partitions); err != nil {
			return err
		}
		return do(ctx, sink)
	})
}

// hasPosition returns an error for a store that no sink has written: it is probably another one than the user means.
func (c config) hasPosition(ctx context.Context, st row.Store, partitions int) error {
	positions, err := st.Positions(ctx, partitions)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(positions, func(p row.Position) bool { return p.Generation > 0 }) {
		return fmt.Errorf("no sink has stored records in %s", withoutPassword(c.To))
	}
	return nil
}
