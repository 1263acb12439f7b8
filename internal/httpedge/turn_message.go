package httpedge

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
)

// newMessage sets the writer of a message with an id.
func (t *turn) newMessage(id string) {
	t.out = aisdk.New(id, t.of.AISDK)
	t.writer = t.out
}

// maxReads limits how often a message is read from its beginning.
const maxReads = 4

// readMessage reads the records of the message. It runs before the headers are sent, so that a failed read gets a status of its own. The message is read again if
// the feed of the edge has missed a record, and the order cannot be restored in memory.
func (t *turn) readMessage(ctx context.Context) (err error) {
	if t.of.Frames != nil {
		return nil
	}
	after, through := t.of.Start, t.of.Through
	if t.of.Waits {
		after, through = t.of.After, t.of.After.Seq
	}
	for n := 1; ; n++ {
		if t.records, err = t.of.Follow(ctx, after, through); err == nil && !t.of.Waits {
			err = t.readHistory(ctx)
		}
		truncated, ok := errors.AsType[*chunk.TruncatedError](err)
		if n == maxReads || !ok || truncated.Reason != chunk.TruncatedGap {
			return err
		}
		t.detach()
		t.history, t.ahead, t.deferred = history{}, nil, nil
	}
}

// begin sends what is written before the live records. The comment shows the client and the proxies between that the connection is open. It is sent in one write
// with the first frames.
func (t *turn) begin(ctx context.Context, send func([]byte) error) (err error) {
	if !t.of.Replay {
		return nil
	}
	t.frames = []byte(": stream-open\n\n")
	switch {
	case t.of.Frames != nil:
		t.frames = append(t.frames, t.of.Frames...)
	case t.writer != nil:
		err = t.writeHistory(ctx, send)
	case t.of.MessageID != "": // otherwise it is known when the run begins
		t.frames = aisdk.New(t.of.MessageID, t.of.AISDK).Start(t.frames)
	}
	if err == nil {
		err = send(t.frames)
	}
	t.over = t.of.Frames != nil || t.writer != nil && t.writer.Done()
	t.frames, t.history, t.of.Opening = nil, history{}, nil // the response may be open for hours
	return incomplete(err)
}

// takeAwaited begins the message with the record of the session that starts the awaited run.
func (t *turn) takeAwaited(ctx context.Context, rec *chunk.Record) error {
	if rec.Type != chunk.TypeRunStarted {
		return nil
	}
	started, ok := chunk.BodyOf[chunk.RunStarted](*rec)
	if t.writer == nil && (!ok || started.RunID != t.awaited) {
		return nil
	}
	if t.awaited != "" {
		id, earlier, err := t.of.Begun(ctx, *rec, started)
		if err != nil {
			return err
		}
		switch {
		case id != "":
			t.of.AISDK.Earlier = earlier
			t.newMessage(id)
			t.frames = t.out.Start(t.frames)
		case t.writer == nil:
			t.newMessage(t.of.MessageID)
			t.out.Start(nil) // it was sent
		}
	}
	t.awaited = ""
	return nil
}

// cloned returns a record that is kept for longer than its bytes are valid.
func cloned(rec *chunk.Record) *chunk.Record {
	kept := *rec
	kept.Data = bytes.Clone(rec.Data)
	return &kept
}

// atTheEnd returns a pause with the position of the last record.
func (t *turn) atTheEnd(pause chunk.Record) chunk.Record {
	if t.last.Seq > pause.Seq {
		pause.Seq, pause.StoredAt = t.last.Seq, time.UnixMilli(int64(t.last.Anchor))
	}
	return pause
}
