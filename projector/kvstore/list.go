package kvstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/subjects"
)

// The list of a tenant's sessions is their heads themselves, in the order of the
// bucket's stream, which is that of their last saves, read from its end. What a
// list needs is in a header of each head, and only headers are sent. So a list
// costs no write, and is never behind a head or before it.

// listedHead is a head as its headers tell.
type listedHead struct {
	indexed

	session chunk.Session
	seq     uint64
	stored  time.Time
	known   bool // it has our header
	sealed  bool // a grave that expires
}

// maxScan bounds how many heads are looked at for one page.
const maxScan = 20_000

// Sessions implements projector.Lister.
func (st *Store) Sessions(ctx context.Context, tenant string, q projector.Query) (projector.Page, error) {
	filter, err := subjects.SnapshotTenantHeadKeys(tenant)
	if err != nil {
		return projector.Page{}, err
	}
	if q.Limit == 0 {
		q.Limit = projector.DefaultPage
	}
	q.Limit = min(max(1, q.Limit), projector.MaxPage)
	b, err := st.open(ctx)
	if err != nil {
		return projector.Page{}, err
	}
	l := listing{Store: st, b: b, filter: filter, few: uint64(q.Limit) + 1}
	if err := l.begin(ctx, q.Before); err != nil {
		return projector.Page{}, err
	}
	var page projector.Page
	for scanned := 0; l.more(); {
		heads, err := l.back(ctx)
		if err != nil {
			return projector.Page{}, err
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

func (h *listedHead) matches(q projector.Query) bool {
	return h.known && !h.Deleted && h.session.ID == h.session.Root &&
		(q.Status == "" || h.Status == q.Status) && (q.AgentType == "" || h.AgentType == q.AgentType)
}

func (h *listedHead) listed() projector.Listed {
	return projector.Listed{
		Session: h.session, Status: h.Status, AgentType: h.AgentType,
		Position: chunk.Position{Seq: h.Seq, Ordinal: h.Ordinal},
		Created:  timeOf(h.Created), Began: timeOf(h.Began), Saved: h.stored,
	}
}

// listing walks back over the heads of a filter.
type listing struct {
	*Store

	b      *bucket
	filter string
	few    uint64 // heads that one step back reads at least
	first  uint64 // of the stream
	end    uint64 // heads from here on were given out
	behind uint64 // how many those are, about
}

// begin stands behind the last head, or where a page ended.
func (l *listing) begin(ctx context.Context, cursor string) error {
	info, err := l.b.stream.Info(ctx)
	if err != nil {
		return fmt.Errorf("bucket %s: %w", l.cfg.Layout.Snapshots(), err)
	}
	l.first, l.end = max(1, info.State.FirstSeq), info.State.LastSeq+1
	if cursor == "" {
		return nil
	}
	end, err := strconv.ParseUint(cursor, 10, 64)
	if err != nil || strconv.FormatUint(end, 10) != cursor {
		return fmt.Errorf("%w: %.40q", projector.ErrCursor, cursor)
	}
	if end < l.end {
		l.end = end
		l.behind, err = l.count(ctx, l.end)
	}
	return err
}

func (l *listing) more() bool { return l.end > l.first }

// widest is the most that few grows to while little of what is read matches.
const widest = 4096

// back gives the heads before l.end, in order: a few more than are wanted, or
// all. How far back that is the server counts, so that a page costs the same in
// a bucket of a hundred heads and of a million, wherever the tenant's are.
func (l *listing) back(ctx context.Context) ([]listedHead, error) {
	few, many := l.few, 8*l.few
	l.few = min(4*l.few, widest)
	start, tooFar := l.end, l.end // too few are from tooFar on
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
	l.end, l.behind = start, l.behind+n
	return heads, err
}

// between counts the heads from start to l.end.
func (l *listing) between(ctx context.Context, start uint64) (uint64, error) {
	n, err := l.count(ctx, start)
	return n - min(n, l.behind), err
}

// count is how many heads are there from a sequence on.
func (l *listing) count(ctx context.Context, start uint64) (uint64, error) {
	c, err := l.b.stream.CreateConsumer(ctx, l.consumer(start))
	if err != nil {
		return 0, fmt.Errorf("count %s: %w", l.filter, err)
	}
	n := c.CachedInfo().NumPending
	return n, l.b.remove(ctx, c)
}

// read gives the heads from start to l.end.
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

func (l *listing) consumer(start uint64) jetstream.ConsumerConfig {
	return headsConsumer(l.b.subject(l.filter), start)
}

// headsConsumer reads headers from a sequence on. It is deleted by whoever made
// it, or by the server if that one dies.
func headsConsumer(filter string, start uint64) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: max(1, start),
		AckPolicy: jetstream.AckNonePolicy, FilterSubject: filter, HeadersOnly: true,
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

// readBatch is how many headers are asked for at a time.
const readBatch = 500

// On replicas the consumer may be on another server than ours, which says that it
// is there before all servers have heard where: a question that is asked at once
// finds nobody. Who is at home is heard of within milliseconds; a server that died
// is not, and that is an error.
const (
	maxMisses = 8
	firstMiss = time.Millisecond
)

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// heads yields the heads of a filter from a sequence on, in order, to the end of
// the bucket; then at most one error.
func (st *Store) heads(ctx context.Context, b *bucket, filter string, start uint64) iter.Seq2[listedHead, error] {
	return func(yield func(listedHead, error) bool) {
		err := st.eachHead(ctx, b, filter, start, func(h listedHead) bool { return yield(h, nil) })
		if err != nil {
			yield(listedHead{}, fmt.Errorf("read %s: %w", filter, err))
		}
	}
}

func (st *Store) eachHead(ctx context.Context, b *bucket, filter string, start uint64, yield func(listedHead) bool) (err error) {
	c, err := b.stream.CreateConsumer(ctx, headsConsumer(b.subject(filter), start))
	if err != nil {
		return err
	}
	stopped := false
	defer func() {
		if removed := b.remove(ctx, c); err == nil && !stopped {
			err = removed
		}
	}()
	misses := 0
	for left := c.CachedInfo().NumPending; left > 0; {
		batch, err := c.Fetch(int(min(left, readBatch)), jetstream.FetchContext(ctx))
		if err != nil {
			return err
		}
		got := false
		for m := range batch.Messages() {
			got = true
			meta, err := m.Metadata()
			if err != nil {
				return err
			}
			left = meta.NumPending
			if !stopped && !yield(b.listedHead(m, meta)) {
				stopped = true
			}
		}
		switch {
		case stopped:
			return nil
		case errors.Is(batch.Error(), nats.ErrNoResponders) && misses < maxMisses:
			if err := pause(ctx, firstMiss<<misses); err != nil {
				return err
			}
			misses++
		case batch.Error() != nil:
			return batch.Error()
		case !got:
			return ctx.Err()
		}
	}
	return nil
}

func (b *bucket) listedHead(m jetstream.Msg, meta *jetstream.MsgMetadata) listedHead {
	h := listedHead{seq: meta.Sequence.Stream, stored: meta.Timestamp, sealed: m.Headers().Get(jetstream.MsgTTLHeader) != ""}
	var err error
	if h.session, err = subjects.ParseSnapshotHeadKey(b.key(m.Subject())); err == nil {
		h.known = json.Unmarshal([]byte(m.Headers().Get(indexHeader)), &h.indexed) == nil
	}
	return h
}
