package tailrace

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/wait"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/runs"
)

// Write opens a run that this program writes itself, without a worker. The Run is the writer of the session until a newer run fences it; End returns nil when
// all of its chunks are stored. Close the Run. The error is producers.ErrRunning if another run of the session is open.
func (t *Tailrace) Write(ctx context.Context, id string, run chunk.RunStarted) (*producers.Run, error) {
	session, err := t.session(id)
	if err != nil {
		return nil, err
	}
	if run.By == nil {
		run.By = t.by
	}
	return t.producer.Start(ctx, session, run)
}

// Follow returns the records of a session after a position, first those that are stored and then new ones, until the session is complete. The zero Position is
// the beginning, and waits for the first record of a run that was requested. Position of a Record, or of a fold.Content, is where a reader continues. It yields records with nil errors, then at most one error, last:
// a *chunk.TruncatedError if the log does not have all records any more, chunk.ErrUnknownSession if there are none, and that of ctx.
func (t *Tailrace) Follow(ctx context.Context, id string, after chunk.Position) iter.Seq2[chunk.Record, error] {
	return t.follow(ctx, id, chunk.Range{After: after})
}

// Tree is Follow with the records of all sub-agents of the session, merged in the order in which they were stored.
func (t *Tailrace) Tree(ctx context.Context, id string, after chunk.Position) iter.Seq2[chunk.Record, error] {
	after.Ordinal = 0 // of one session; the sequence is that of the tree
	return t.follow(ctx, id, chunk.Range{After: after, Tree: true})
}

func (t *Tailrace) follow(ctx context.Context, id string, of chunk.Range) iter.Seq2[chunk.Record, error] {
	session, err := t.session(id)
	if err != nil {
		return func(yield func(chunk.Record, error) bool) { yield(chunk.Record{}, err) }
	}
	of.Session = session
	return func(yield func(chunk.Record, error) bool) {
		for t.followOnce(ctx, id, of, yield) {
			if err := wait.Sleep(ctx, firstRecordInterval); err != nil {
				yield(chunk.Record{}, err)
				return
			}
		}
	}
}

// firstRecordInterval is the time between two reads of a session whose run is requested and not begun.
const firstRecordInterval = 50 * time.Millisecond

// followOnce passes the records of a range on, and reports whether there are none yet.
func (t *Tailrace) followOnce(ctx context.Context, id string, of chunk.Range, yield func(chunk.Record, error) bool) (again bool) {
	for rec, err := range t.reader.Follow(ctx, of) {
		if errors.Is(err, chunk.ErrUnknownSession) {
			if status, statusErr := t.Status(ctx, id); statusErr == nil && status.Phase == runs.PhaseRunning {
				return true
			}
		}
		if !yield(rec, err) {
			return false
		}
	}
	return false
}

// Firehose delivers the records of all sessions of all tenants, or those that cfg selects, at least once, until ctx ends or handle fails, and returns that
// error. The calls of handle for one session come in the order of the log; those for several partitions overlap.
func (t *Tailrace) Firehose(ctx context.Context, cfg consumers.FirehoseConfig, handle func(context.Context, chunk.Record) error) error {
	firehose, err := t.reader.Firehose(cfg)
	if err != nil {
		return err
	}
	return firehose.Run(ctx, handle)
}

// Snapshot returns the messages and the state of a session up to its last record, with an answer in flight. Follow after its Position has what comes next. The
// error is chunk.ErrUnknownSession if neither the log nor the snapshots have the session.
func (t *Tailrace) Snapshot(ctx context.Context, id string) (fold.Content, error) {
	session, err := t.session(id)
	if err != nil {
		return fold.Content{}, err
	}
	snap, err := t.snapshots.Snapshot(ctx, session)
	if err != nil {
		return fold.Content{}, err
	}
	return snap.Content(true), nil
}
