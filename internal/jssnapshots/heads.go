package jssnapshots

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsreader"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/subjects"
)

// listedHead is what the headers of a head contain.
type listedHead struct {
	HeadIndex

	session  chunk.Session
	seq      uint64
	stored   time.Time
	known    bool // it has the index header
	expiring bool // a tombstone that expires
}

func (h *listedHead) matches(q projector.SessionQuery) bool {
	return h.known && !h.Deleted && h.session.ID == h.session.Root &&
		(q.Status == "" || fold.Status(h.Status) == q.Status) && (q.AgentType == "" || h.AgentType == q.AgentType) &&
		(q.Shows == nil || q.Shows(h.session.ID, h.Owner))
}

func (h *listedHead) listed() projector.SessionInfo {
	return projector.SessionInfo{
		Session: h.session, Status: fold.Status(h.Status), AgentType: h.AgentType, Owner: h.Owner,
		Position: chunk.Position{Seq: h.Seq, Ordinal: h.Ordinal},
		Created:  timeOf(h.Created), StartedAt: timeOf(h.Began), SavedAt: h.stored,
	}
}

// openTimeout bounds the attempts to begin a list.
const openTimeout = 5 * time.Second

// heads yields the heads of a filter from a sequence on, in order, to the present end of the bucket; then at most one error. Without this end, an iteration whose caller
// replaces each head would never end.
func (st *Store) heads(ctx context.Context, b *bucket, filter string, start uint64) iter.Seq2[listedHead, error] {
	return func(yield func(listedHead, error) bool) {
		o := jsreader.NewOrdered(st.api, jsreader.OrderedConfig{
			Stream: b.name, Filter: b.subject(filter), After: max(1, start) - 1, HeadersOnly: true, OpenTimeout: openTimeout, Log: st.cfg.Log,
		})
		defer o.Close()
		err := o.Open(ctx)
		for end := o.State().Last; err == nil; {
			var e jsreader.Entry
			if e, err = o.NextThrough(ctx, end); err == nil && (e.Seq > end || !yield(b.listedHead(&e), nil)) {
				return
			}
		}
		if !errors.Is(err, jsreader.ErrEnd) {
			yield(listedHead{}, fmt.Errorf("read %s: %w", filter, err))
		}
	}
}

func (b *bucket) listedHead(e *jsreader.Entry) listedHead {
	h := listedHead{seq: e.Seq, stored: e.Stored, expiring: e.Header.Get(jetstream.MsgTTLHeader) != ""}
	var err error
	if h.session, err = subjects.ParseSnapshotHeadKey(b.key(e.Subject)); err == nil {
		h.HeadIndex, h.known = ReadIndex(e.Header)
	}
	return h
}
