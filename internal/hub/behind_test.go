package hub_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/hub"
	"github.com/tailrace/tailrace/internal/testkit/memlog"
)

// behind is a copy of a log that lacks what the original may have.
type behind struct{ *memlog.Log }

func (l behind) Last(ctx context.Context, s chunk.Session) (chunk.Record, error) {
	rec, err := l.Log.Last(ctx, s)
	if errors.Is(err, chunk.ErrUnknownSession) {
		err = hub.ErrBehind
	}
	return rec, err
}

func (l behind) CheckCursor(ctx context.Context, s chunk.Session, scope chunk.Scope, after chunk.Cursor) (chunk.Position, error) {
	pos, err := l.Log.CheckCursor(ctx, s, scope, after)
	if truncated, ok := errors.AsType[*chunk.TruncatedError](err); ok && truncated.Reason == chunk.TruncatedFuture {
		err = hub.ErrBehind
	}
	return pos, err
}

// A session that the copy does not have may exist: a client that waits for it gets its records, and another one an error. A position that the copy has not reached
// is not called lost.
func TestCopyIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := behind{memlog.New()}
		other := chunk.RootSession("t", "other")
		rec := log.Append(other, chunk.TypeRunStarted, "")
		h := start(t, log, log, hub.Config{})
		if _, err := h.Subscribe(t.Context(), hub.Request{Session: aRoot}); !errors.Is(err, hub.ErrBehind) {
			t.Errorf("err = %v, want ErrBehind", err)
		}
		beyond := chunk.Position{Seq: rec.Seq + 5, Ordinal: rec.Ordinal + 5}
		if _, err := h.Subscribe(t.Context(), hub.Request{Session: other, After: beyond}); !errors.Is(err, hub.ErrBehind) {
			t.Errorf("err = %v, want ErrBehind", err)
		}
		cur, err := h.Subscribe(t.Context(), hub.Request{Session: aRoot, KeepOpen: true})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(time.Minute)
			log.Append(aRoot, chunk.TypeRunStarted, "")
			log.Append(aRoot, chunk.TypeStreamEnd, "")
		}()
		awaitTypes(t, cur, chunk.TypeRunStarted, chunk.TypeStreamEnd)
		cur.Close()
	})
}
