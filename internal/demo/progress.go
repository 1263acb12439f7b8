package demo

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
)

// Log is what the worker reads to learn how far a run came. *consumers.Reader
// fits. Calls may overlap.
type Log interface {
	// Replay yields the records of s to the present end; a session without
	// records is chunk.ErrUnknownSession.
	Replay(ctx context.Context, s chunk.Session, after chunk.Position, opts ...consumers.Option) iter.Seq2[chunk.Record, error]
}

// progress is how far a run came, as the log has it.
type progress struct {
	last      chunk.Position // of the session
	begun     chunk.Seq      // the run's first run_started, 0 when there is none: floor of a clean-up
	step      int            // last committed step, 0 before the first
	committed chunk.Seq      // its step_committed, or begun: what a resync names
	finished  bool           // the run has ended or failed
	other     string         // another run of the session that is open, "" when none is
	messages  int            // of the whole session: a person's inputs, and one for each committed step
}

// readProgress reads the whole session. A demo's are short; an agent with a
// state store would read its checkpoint instead.
func readProgress(ctx context.Context, log Log, s chunk.Session, run string) (progress, error) {
	var p progress
	current := "" // the run that the records belong to
	for rec, err := range log.Replay(ctx, s, chunk.Position{}, consumers.FromFloor()) {
		switch {
		case errors.Is(err, chunk.ErrUnknownSession):
			return progress{}, nil
		case err != nil:
			return progress{}, fmt.Errorf("read the session: %w", err)
		}
		p.last = rec.Position()
		switch rec.Type {
		case chunk.TypeRunStarted, chunk.TypeStepCommitted, chunk.TypeTruncated, chunk.TypeStreamEnd, chunk.TypeStreamFailed:
			c, err := rec.Decode()
			if err != nil {
				return progress{}, fmt.Errorf("read the session: sequence %d: %w", rec.Seq, err)
			}
			current = p.note(rec, c, run, current)
		}
	}
	return p, nil
}

// note takes one record of those that matter and returns the current run.
func (p *progress) note(rec chunk.Record, c chunk.Chunk, run, current string) string {
	switch b := c.Body.(type) {
	case chunk.RunStarted:
		return p.noteStart(rec, b, run)
	case chunk.StepCommitted:
		p.messages++
		if current == run {
			p.step, p.committed = int(c.Step), rec.Seq
		}
	case chunk.Truncated:
		if current == run {
			p.step = min(p.step, int(b.TruncatedAtStep))
		}
	case chunk.StreamEnd, chunk.StreamFailed:
		p.finished = p.finished || current == run
		p.other = ""
	}
	return current
}

func (p *progress) noteStart(rec chunk.Record, b chunk.RunStarted, run string) string {
	if b.Mode != modeTakeover {
		p.messages += len(b.Input)
	}
	if b.RunID != run {
		p.other = b.RunID
		return b.RunID
	}
	p.other, p.finished = "", false
	if p.begun == 0 {
		p.begun, p.committed = rec.Seq, rec.Seq
	}
	return run
}

// beforeRecord is a Log that ends before a record.
type beforeRecord struct {
	Log

	seq chunk.Seq
}

// Replay yields what lies before the record.
func (b beforeRecord) Replay(ctx context.Context, s chunk.Session, after chunk.Position, opts ...consumers.Option) iter.Seq2[chunk.Record, error] {
	return b.Log.Replay(ctx, s, after, append(opts, consumers.Through(b.seq-1))...)
}
