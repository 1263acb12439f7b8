package consumers

import (
	"context"
	"errors"
	"fmt"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/jsreader"
)

// endState is the state of the session whose terminal record ends the read. The zero value is unknown.
type endState struct {
	known    bool
	terminal bool
	failed   error // a chunk.ErrFailed after stream_failed
}

// see updates the state from the next record of a read, if that is a record of the root.
func (e *endState) see(ofRoot bool, rec chunk.Record) {
	if !ofRoot {
		return
	}
	*e = endState{known: true, terminal: rec.Type.Terminal()}
	if rec.Type == chunk.TypeStreamFailed {
		e.failed = failure(rec)
	}
}

// failure returns the error of a stream_failed record.
func failure(rec chunk.Record) error {
	body, _ := chunk.BodyOf[chunk.StreamFailed](rec)
	return fmt.Errorf("session %s: %w: %s", rec.Session, chunk.ErrFailed, body.Error)
}

// ended ends the read if the root has ended: with its failure, or with jsreader.ErrEnd. A read that began in the middle of a tree may not have seen a
// record of the root yet.
func (rd *readState) ended(ctx context.Context) error {
	if !rd.rootLast.known {
		rec, err := rd.lastOfRoot(ctx)
		if errors.Is(err, jsclient.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if rec.Seq > chunk.Seq(rd.ordered.Last()) {
			return nil // in flight
		}
		rd.rootLast.see(true, rec)
	}
	switch {
	case !rd.rootLast.terminal:
		return nil
	case rd.rootLast.failed != nil:
		return rd.rootLast.failed
	}
	return jsreader.ErrEnd
}

// lastOfRoot requests the last record of the root from the leader. The read has begun, so the request is retried until ctx ends.
func (rd *readState) lastOfRoot(ctx context.Context) (chunk.Record, error) {
	return retry(ctx, rd.Reader, 0, func(ctx context.Context) (chunk.Record, error) {
		return rd.lastRecord(ctx, rd.stream, rd.root, rd.session)
	})
}

// watchForEnd makes the reader report when no message arrives, as long as the root may have ended. Then checkEnding checks again whether the root has ended:
// the server's count of messages after a terminal record stays wrong if those messages are deleted or malformed.
func (rd *readState) watchForEnd() {
	rd.ordered.WatchSilence(rd.live && rd.merge == nil && !rd.keepOpen && (rd.rootLast.terminal || !rd.rootLast.known))
}

// atEnd handles a position with nothing after it: does the session exist, is the position its end, and has it ended?
func (rd *readState) atEnd(ctx context.Context) error {
	m, err := retry(ctx, rd.Reader, rd.cfg.OpenTimeout, func(ctx context.Context) (jsclient.Message, error) {
		return rd.client.Last(ctx, rd.stream, rd.filter)
	})
	switch {
	case errors.Is(err, jsclient.ErrNotFound):
		return rd.errEmptyScope()
	case err != nil:
		return err
	case chunk.Seq(m.Seq) > rd.after.Seq:
		// The consumer reads a replica that lags behind the leader.
		return nil
	case chunk.Seq(m.Seq) < rd.after.Seq:
		// The log had records beyond its present end when the position was taken.
		return rd.truncated(chunk.TruncatedFuture, 0)
	}
	switch {
	case !rd.live:
		return jsreader.ErrEnd
	case rd.keepOpen:
		return nil
	}
	return rd.ended(ctx)
}

// errEmptyScope returns the result of a read of a scope without any record.
func (rd *readState) errEmptyScope() error {
	switch {
	case rd.after.Seq == 0:
		return chunk.ErrUnknownSession
	case rd.live:
		return nil // a position from a snapshot whose log has expired; the next run continues after it
	}
	return jsreader.ErrEnd
}

// checkEnding checks again whether the root has ended: the server counted messages after its terminal record, but none arrived.
func (rd *readState) checkEnding(ctx context.Context) error {
	if _, err := rd.ordered.Beyond(ctx); !errors.Is(err, jsclient.ErrNotFound) {
		return err // nil: in flight
	}
	return rd.ended(ctx)
}
