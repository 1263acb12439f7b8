package consumers

import (
	"context"
	"log/slog"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/jsreader"
)

// Gap is a range of the log that a Firehose could not deliver.
type Gap struct {
	Partition int

	// From and To are the first and the last sequence of the range. Other sessions may have records in it that were delivered.
	From, To chunk.Seq

	// Reason is chunk.TruncatedExpired if retention has removed the range before it was delivered: all of its records that the firehose selects are
	// missing. The log does not show whether there were any. A purge by an operator moves the position of a durable firehose that is not running, and is
	// not reported then. chunk.TruncatedGap: the log has later and earlier records of Session.
	Reason chunk.TruncationReason

	// Session has lost the records FirstOrdinal to LastOrdinal. The three are set only if Reason is chunk.TruncatedGap.
	Session                   chunk.Session
	FirstOrdinal, LastOrdinal chunk.Ordinal
}

func (l *partitionLoop) reportGap(ctx context.Context, g Gap) error {
	g.Partition = l.partition
	l.reader.gaps.Add(1)
	attrs := []slog.Attr{
		slog.Int("partition", g.Partition), slog.Uint64("from", uint64(g.From)), slog.Uint64("to", uint64(g.To)), slog.String("reason", string(g.Reason)),
	}
	if g.Reason == chunk.TruncatedGap {
		attrs = append(attrs, slog.String("session", g.Session.String()))
	}
	l.reader.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "firehose records missing", attrs...)
	if l.cfg.OnGap == nil {
		return nil
	}
	return l.cfg.OnGap(ctx, g)
}

// checkExpired reports the range before e that retention has removed, also while this durable firehose was not running. Sequences that are missing after the first
// one of the stream were removed by a cleanup, or belong to records that the filter does not select.
func (d *durable) checkExpired(ctx context.Context, e *jsreader.Entry) error {
	before := max(d.handled, d.pinned.AckFloorBefore())
	if before == 0 || e.Seq <= before+1 {
		return nil // the firehose is used for the first time, or nothing is missing
	}
	if d.first == 0 {
		state, err := retry(ctx, d.reader, 0, func(ctx context.Context) (jsclient.State, error) {
			return d.reader.client.State(ctx, d.stream, "")
		})
		if err != nil {
			return err
		}
		d.first = state.First
	}
	if d.first <= before+1 {
		return nil
	}
	clear(d.sessions) // their next records do not follow the last ones
	return d.reportGap(ctx, Gap{From: chunk.Seq(before + 1), To: chunk.Seq(min(d.first, e.Seq) - 1), Reason: chunk.TruncatedExpired})
}

// maxCheckedSessions bounds the sessions of a partition whose last ordinal is known. Beyond it all are forgotten, and a gap before the next record of each
// is not found.
const maxCheckedSessions = 1 << 16

// checkOrdinal reports records of a session that are missing in the middle of the log, such as those of a damaged block that the server has dropped.
func (l *partitionLoop) checkOrdinal(ctx context.Context, e *jsreader.Entry) error {
	epoch, ordinal, ok := chunk.ParseEventID(e.Header.Get("ce-id"))
	if !ok {
		return nil // malformed
	}
	rec := chunk.Record{Seq: chunk.Seq(e.Seq), Epoch: epoch, Ordinal: ordinal, Type: typeOf(e.Header)}
	c := l.sessions[e.Subject]
	if c == nil {
		if len(l.sessions) >= maxCheckedSessions {
			clear(l.sessions)
		}
		l.sessions[e.Subject] = &ordinalChecker{last: rec.Position(), epoch: epoch, begun: true}
		return nil
	}
	switch c.check(rec) {
	case fenced:
		return nil
	case reused:
		c.epoch = 0 // the session has started again
	case missing:
		if err := l.explainGap(ctx, c, e, rec); err != nil {
			return err
		}
	case follows:
	}
	c.accept(rec)
	return nil
}

// explainGap reports the records between the last one of a session and rec, unless a cleanup has removed them.
func (l *partitionLoop) explainGap(ctx context.Context, c *ordinalChecker, e *jsreader.Entry, rec chunk.Record) error {
	s, err := l.reader.cfg.Layout.Parse(e.Subject)
	if err != nil {
		return nil //nolint:nilerr // deliver reports the malformed message
	}
	missing := gap{c.last.Ordinal + 1, rec.Ordinal - 1}
	truncations, _, err := l.reader.truncationRecords(ctx, jsreader.OrderedConfig{Stream: l.stream, Filter: e.Subject, After: e.Seq - 1})
	if err != nil {
		return err
	}
	if covers(removedBy(truncations), missing) {
		return nil
	}
	return l.reportGap(ctx, Gap{
		From: c.last.Seq + 1, To: rec.Seq - 1, Reason: chunk.TruncatedGap, Session: s, FirstOrdinal: missing.first, LastOrdinal: missing.last,
	})
}
