package jssnapshots

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// listing walks back over the heads of a filter in one bucket.
type listing struct {
	*Store

	b          *bucket
	filter     string
	few, most  uint64    // heads that one step back reads at least, and the maximum of it
	until      time.Time // only heads that were stored before it; zero for all
	first      uint64    // of the stream
	end        uint64    // heads from here on were read
	stepped    bool      // a step was taken
	counted    bool      // countAfter is known
	countAfter uint64    // about how many heads are from end on

	found   []listedHead // heads that were read, match and are not on a page yet, in order
	scanned int          // heads that were read
	reached time.Time    // when the earliest of them was stored
}

// noEnd is the end of a list that begins with the last head.
const noEnd = math.MaxUint64

// begin sets the position after the last head, or leaves it at the end of the previous page.
func (l *listing) begin(ctx context.Context) error {
	info, err := l.info(ctx, l.b, "")
	if err != nil {
		return err
	}
	l.first = max(1, info.State.FirstSeq)
	if last := info.State.LastSeq + 1; l.end < last {
		return nil
	} else if l.end, l.counted = last, true; l.until.IsZero() {
		return nil
	}
	l.end, err = l.startOf(ctx, l.until)
	l.counted = false
	return err
}

// startOf returns the sequence of the first message that was stored at a time or later, or one between it and the first head after it.
func (l *listing) startOf(ctx context.Context, at time.Time) (uint64, error) {
	cfg := l.consumer(0)
	cfg.DeliverPolicy, cfg.OptStartSeq, cfg.OptStartTime = jetstream.DeliverByStartTimePolicy, 0, &at
	c, err := l.b.stream.CreateConsumer(ctx, cfg)
	if err != nil {
		return 0, fmt.Errorf("find the start of %s: %w", l.filter, err)
	}
	return c.CachedInfo().Delivered.Stream + 1, l.b.remove(ctx, c)
}

func (l *listing) last() *listedHead { return &l.found[len(l.found)-1] }

// take removes the last head.
func (l *listing) take() { l.found = l.found[:len(l.found)-1] }

func (l *listing) more() bool { return l.end > l.first }

// maxStep bounds the sum of few over all buckets. few grows while only a few of the read heads match.
const maxStep = 4096

// firstStep is how many messages the first step reads for each head that is wanted: without counting heads, which costs as much as reading these.
const firstStep = 4

// stepBack returns the heads before l.end, in order: a few more than are wanted, or all. From the second step on the server counts heads to find the start of
// the step, so that the cost of a page does not depend on the size of the bucket and on the positions of the tenant's heads.
func (l *listing) stepBack(ctx context.Context) ([]listedHead, error) {
	if !l.stepped {
		l.stepped = true
		start := l.end - min(firstStep*l.few, l.end-l.first)
		heads, err := l.read(ctx, start)
		l.end, l.countAfter = start, l.countAfter+uint64(len(heads))
		return heads, err
	}
	if !l.counted {
		n, err := l.count(ctx, l.end)
		if err != nil {
			return nil, err
		}
		l.counted, l.countAfter = true, n
	}
	few, many := l.few, min(8*l.few, 2*l.most)
	l.few = min(4*l.few, l.most)
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
