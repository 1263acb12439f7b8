package jssnapshots

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/jsreader"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/search"
	"github.com/tailrace/tailrace/projector/fold"
)

// listedHead is what the headers of a head contain.
type listedHead struct {
	HeadIndex

	session  chunk.Session
	header   nats.Header
	seq      uint64
	stored   time.Time
	known    bool // it has the index header
	expiring bool // a tombstone that expires
}

func (h *listedHead) matches(q projector.SessionQuery) bool {
	return h.known && !h.Deleted && h.session.ID == h.session.Root && fold.Status(h.Status) != fold.Seeding &&
		(q.Status == "" || fold.Status(h.Status) == q.Status) && (q.AgentType == "" || h.AgentType == q.AgentType) && (q.Owner == "" || h.Owner == q.Owner) &&
		(q.Until.IsZero() || h.stored.Before(q.Until)) && !h.stored.Before(q.Since) &&
		(q.Origin == "" || h.Origin == q.Origin) && (!q.Waiting || h.Approvals+h.ClientTools > 0) && (q.Shows == nil || q.Shows(h.session.ID, h.Owner)) && h.matchesSummary(q)
}

// matchesSummary reports whether the summary names the model of a query, the latest error is of its group, and one of the texts that it searches contains its text.
func (h *listedHead) matchesSummary(q projector.SessionQuery) bool {
	if q.Text == "" && q.ErrorGroup == "" && q.Model == "" {
		return true
	}
	s := readSummary(h.header, h.HeadIndex)
	if q.Model != "" && !slices.ContainsFunc(s.Models, func(m fold.ModelUsage) bool { return m.Model == q.Model }) {
		return false
	}
	if q.ErrorGroup != "" && (s.Error == nil || s.Error.Group() != q.ErrorGroup) {
		return false
	}
	texts := []string{s.Title}
	if !q.TitleOnly {
		texts = append(texts, h.session.ID, h.Owner)
		if s.Error != nil {
			texts = append(texts, s.Error.Code, s.Error.Text, s.Error.Tool)
		}
	}
	return slices.ContainsFunc(texts, search.For(q.Text).In)
}

func (h *listedHead) listed() projector.SessionInfo {
	return projector.SessionInfo{
		Session: h.session, Status: fold.Status(h.Status), AgentType: h.AgentType, Owner: h.Owner, Origin: h.Origin,
		Position: chunk.Position{Seq: h.Seq, Ordinal: h.Ordinal},
		Created:  timeOf(h.Created), StartedAt: timeOf(h.Began), SavedAt: h.stored, Summary: readSummary(h.header, h.HeadIndex),
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

// exact returns the head of a session; it matches no query if there is none.
func (st *Store) exact(ctx context.Context, s chunk.Session) (listedHead, error) {
	key, err := names.SnapshotHeadKey(s)
	if err != nil {
		return listedHead{}, nil //nolint:nilerr // no session has this id
	}
	b, err := st.bucketOf(ctx, s)
	if err != nil {
		return listedHead{}, err
	}
	m, err := request(ctx, st, func(ctx context.Context) (*jetstream.RawStreamMsg, error) {
		return b.stream.GetLastMsgForSubject(ctx, b.subject(key))
	})
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return listedHead{}, nil
	}
	if err != nil {
		return listedHead{}, fmt.Errorf("read %s: %w", key, err)
	}
	return b.listedHead(&jsreader.Entry{Message: jsclient.Message{Subject: m.Subject, Header: m.Header, Seq: m.Sequence, Stored: m.Time}}), nil
}

func (b *bucket) listedHead(e *jsreader.Entry) listedHead {
	h := listedHead{header: e.Header, seq: e.Seq, stored: e.Stored, expiring: e.Header.Get(jetstream.MsgTTLHeader) != ""}
	var err error
	if h.session, err = names.ParseSnapshotHeadKey(b.key(e.Subject)); err == nil {
		h.HeadIndex, h.known = ReadIndex(e.Header)
	}
	return h
}
