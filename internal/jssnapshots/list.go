package jssnapshots

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/headindex"
	"github.com/tailrace/tailrace/internal/jsreader"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/subjects"
)

// The list of the sessions of a tenant is read from their heads, from the end of the stream of the bucket, so that the last saved head is the first. A header
// of each head has the members of the list, and only headers are sent. So a list needs no writes, and always matches the heads.

// listedHead is what the headers of a head contain.
type listedHead struct {
	headindex.Index

	session  chunk.Session
	seq      uint64
	stored   time.Time
	known    bool // it has the index header
	expiring bool // a tombstone that expires
}

// maxScan is the maximum number of heads that are read for one page.
const maxScan = 20_000

// Sessions implements projector.Lister.
func (st *Store) Sessions(ctx context.Context, tenant string, q projector.SessionQuery) (projector.SessionPage, error) {
	filter, err := subjects.SnapshotTenantHeadKeys(tenant)
	if err != nil {
		return projector.SessionPage{}, err
	}
	if q.Limit == 0 {
		q.Limit = projector.DefaultPage
	}
	q.Limit = min(max(1, q.Limit), projector.MaxPage)
	b, err := st.open(ctx)
	if err != nil {
		return projector.SessionPage{}, err
	}
	l := listing{Store: st, b: b, filter: filter, few: uint64(q.Limit) + 1}
	if err := l.begin(ctx, q.Before); err != nil {
		return projector.SessionPage{}, err
	}
	var page projector.SessionPage
	for scanned := 0; l.more(); {
		heads, err := l.stepBack(ctx)
		if err != nil {
			return projector.SessionPage{}, err
		}
		for _, h := range slices.Backward(heads) {
			if !h.matches(q) {
				continue
			}
			if len(page.Sessions) == q.Limit {
				page.Next = strconv.FormatUint(h.seq+1, 10)
				return page, nil
			}
			page.Sessions = append(page.Sessions, h.listed())
		}
		if scanned += len(heads); scanned >= maxScan && l.more() {
			page.Next = strconv.FormatUint(l.end, 10)
			break
		}
	}
	return page, nil
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

// listing walks back over the heads of a filter.
type listing struct {
	*Store

	b          *bucket
	filter     string
	few        uint64 // heads that one step back reads at least
	first      uint64 // of the stream
	end        uint64 // heads from here on were returned
	countAfter uint64 // about how many those are
}

// begin sets the position after the last head, or at the end of the previous page.
func (l *listing) begin(ctx context.Context, cursor string) error {
	info, err := l.info(ctx, l.b, "")
	if err != nil {
		return err
	}
	l.first, l.end = max(1, info.State.FirstSeq), info.State.LastSeq+1
	if cursor == "" {
		return nil
	}
	end, err := strconv.ParseUint(cursor, 10, 64)
	if err != nil || strconv.FormatUint(end, 10) != cursor {
		return fmt.Errorf("%w: %.40q", projector.ErrBadCursor, cursor)
	}
	if end < l.end {
		l.end = end
		l.countAfter, err = l.count(ctx, l.end)
	}
	return err
}

func (l *listing) more() bool { return l.end > l.first }

// maxStep is the maximum of few, which grows while only a few of the read heads match.
const maxStep = 4096

// stepBack returns the heads before l.end, in order: a few more than are wanted, or all. The server counts heads to find the start of the step, so that the
// cost of a page does not depend on the size of the bucket and on the positions of the tenant's heads.
func (l *listing) stepBack(ctx context.Context) ([]listedHead, error) {
	few, many := l.few, 8*l.few
	l.few = min(4*l.few, maxStep)
	start, tooFar := l.end, l.end // there are too few heads from tooFar on
	var n uint64
	for width := 8 * few; n < few && start > l.first; width *= 8 {
		tooFar = start
		start = l.end - min(width, l.end-l.first)
		var err error
		if n, err = l.between(ctx, start); err != nil {
			return nil, err
		}
	}
	for n > many && tooFar-start > 1 {
		middle := start + (tooFar-start)/2
		m, err := l.between(ctx, middle)
		if err != nil {
			return nil, err
		}
		if m < few {
			tooFar = middle
		} else {
			start, n = middle, m
		}
	}
	heads, err := l.read(ctx, start)
	l.end, l.countAfter = start, l.countAfter+n
	return heads, err
}

// between returns the number of heads from start to l.end.
func (l *listing) between(ctx context.Context, start uint64) (uint64, error) {
	n, err := l.count(ctx, start)
	return n - min(n, l.countAfter), err
}

// count returns the number of heads from a sequence on.
func (l *listing) count(ctx context.Context, start uint64) (uint64, error) {
	c, err := l.b.stream.CreateConsumer(ctx, l.consumer(start))
	if err != nil {
		return 0, fmt.Errorf("count %s: %w", l.filter, err)
	}
	n := c.CachedInfo().NumPending
	return n, l.b.remove(ctx, c)
}

// read returns the heads from start to l.end.
func (l *listing) read(ctx context.Context, start uint64) ([]listedHead, error) {
	var heads []listedHead
	for h, err := range l.heads(ctx, l.b, l.filter, start) {
		if err != nil {
			return nil, err
		}
		if h.seq >= l.end {
			break
		}
		heads = append(heads, h)
	}
	return heads, nil
}

// consumer returns a consumer whose number of pending messages is the count. The server deletes it if this process crashes before it does.
func (l *listing) consumer(start uint64) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: max(1, start),
		AckPolicy: jetstream.AckNonePolicy, FilterSubject: l.b.subject(l.filter), HeadersOnly: true,
		MemoryStorage: true, Replicas: 1, InactiveThreshold: 30 * time.Second,
	}
}

func (b *bucket) remove(ctx context.Context, c jetstream.Consumer) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err := b.stream.DeleteConsumer(ctx, c.CachedInfo().Name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil
	}
	return err
}

// openTimeout bounds the attempts to begin a list.
const openTimeout = 5 * time.Second

// heads yields the heads of a filter from a sequence on, in order, to the end of the bucket; then at most one error.
func (st *Store) heads(ctx context.Context, b *bucket, filter string, start uint64) iter.Seq2[listedHead, error] {
	return func(yield func(listedHead, error) bool) {
		err := st.eachHead(ctx, b, filter, start, func(h listedHead) bool { return yield(h, nil) })
		if err != nil {
			yield(listedHead{}, fmt.Errorf("read %s: %w", filter, err))
		}
	}
}

func (st *Store) eachHead(ctx context.Context, b *bucket, filter string, start uint64, yield func(listedHead) bool) error {
	o := jsreader.NewOrdered(st.api, jsreader.OrderedConfig{
		Stream: b.name, Filter: b.subject(filter), After: max(1, start) - 1, HeadersOnly: true, OpenTimeout: openTimeout, Log: st.cfg.Log,
	})
	defer o.Close()
	if err := o.Open(ctx); err != nil {
		return err
	}
	end := o.State().Last
	for {
		e, err := o.NextThrough(ctx, end)
		if errors.Is(err, jsreader.ErrEnd) {
			return nil
		}
		if err != nil {
			return err
		}
		if !yield(b.listedHead(&e)) {
			return nil
		}
	}
}

func (b *bucket) listedHead(e *jsreader.Entry) listedHead {
	h := listedHead{seq: e.Seq, stored: e.Stored, expiring: e.Header.Get(jetstream.MsgTTLHeader) != ""}
	var err error
	if h.session, err = subjects.ParseSnapshotHeadKey(b.key(e.Subject)); err == nil {
		h.Index, h.known = headindex.Decode(e.Header.Get(headindex.Header))
	}
	return h
}
