package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/subjects"
)

// follow measures Follow over a session of 20,000 chunks up to its end against
// a bare ordered consumer that reads the same messages without decoding them.
func (l *harness) follow(ctx context.Context) ([]pair, error) {
	size := l.cfg.size(20_000)
	s := chunk.RootSession("bench", "follow")
	if err := l.fill(ctx, size, 1, s); err != nil {
		return nil, err
	}
	return []pair{l.reading(fmt.Sprintf("follow-%d", size), s, size, 0.8, func(ctx context.Context) (int, error) {
		n := 0
		for _, err := range l.reader.Follow(ctx, chunk.Range{Session: s}) {
			if err != nil {
				return n, err
			}
			if n++; n == size {
				break
			}
		}
		return n, nil
	})}, nil
}

// replay measures Replay of sessions that own one message in ten of the stream,
// as on a busy stream.
func (l *harness) replay(ctx context.Context) ([]pair, error) {
	var pairs []pair
	for _, size := range []int{10, 1000, 10_000} {
		size = l.cfg.size(size)
		s := chunk.RootSession("bench", fmt.Sprintf("replay-%d", size))
		if err := l.fill(ctx, size, 10, s); err != nil {
			return nil, err
		}
		pairs = append(pairs, l.reading(fmt.Sprintf("replay-%d", size), s, size, 0.8, func(ctx context.Context) (int, error) {
			n := 0
			for _, err := range l.reader.Replay(ctx, chunk.Range{Session: s}) {
				if err != nil {
					return n, err
				}
				n++
			}
			return n, nil
		}))
	}
	return pairs, nil
}

// reading compares a method of reading a session of size records with a bare
// ordered consumer. Short reads are repeated within a round.
func (l *harness) reading(name string, s chunk.Session, size int, ratio float64, ours func(context.Context) (int, error)) pair {
	repeat := max(1, l.cfg.size(2000)/size)
	measured := func(read func(context.Context) (int, error)) work {
		return func(ctx context.Context, _ int) (figures, error) {
			start := time.Now()
			for range repeat {
				if n, err := read(ctx); err != nil || n != size {
					return nil, fmt.Errorf("read session: %d of %d records: %w", n, size, err)
				}
			}
			return rate(size*repeat, time.Since(start)), nil
		}
	}
	return pair{
		name: name, targets: []target{{figure: chunksPerSecond, ratioAtLeast: ratio}}, baseline: "bare ordered consumer",
		ours: measured(ours),
		raw:  measured(func(ctx context.Context) (int, error) { return l.rawRead(ctx, s, size) }),
	}
}

func (l *harness) rawRead(ctx context.Context, s chunk.Session, size int) (int, error) {
	subject, err := subjects.Layout{}.Subject(s)
	if err != nil {
		return 0, err
	}
	stream := subjects.Layout{}.Stream(0)
	cons, err := l.raw.OrderedConsumer(ctx, stream, jetstream.OrderedConsumerConfig{FilterSubjects: []string{subject}})
	if err != nil {
		return 0, err
	}
	msgs, err := cons.Messages()
	if err != nil {
		return 0, err
	}
	defer msgs.Stop()
	for n := range size {
		if _, err := msgs.Next(); err != nil {
			return n, err
		}
	}
	info, err := cons.Info(ctx)
	if err != nil {
		return size, err
	}
	return size, l.raw.DeleteConsumer(ctx, stream, info.Name)
}

// fill writes a session of size records, each followed by every-1 records of
// other sessions, with the async publisher, because only the resulting log
// matters.
func (l *harness) fill(ctx context.Context, size, every int, s chunk.Session) error {
	for n := range size {
		if err := l.fillOne(s, n); err != nil {
			return err
		}
		for other := range every - 1 {
			if err := l.fillOne(chunk.RootSession("bench", fmt.Sprintf("%s-other-%d", s.ID, other)), n); err != nil {
				return err
			}
		}
		if n%500 == 499 {
			if err := awaitPublishes(ctx, l.raw); err != nil {
				return err
			}
		}
	}
	return awaitPublishes(ctx, l.raw)
}

func (l *harness) fillOne(s chunk.Session, n int) error {
	subject, err := subjects.Layout{}.Subject(s)
	if err != nil {
		return err
	}
	m, err := codec.Encode(codec.Envelope{Session: s, Epoch: 1, Ordinal: chunk.Ordinal(n + 1)}, event(s, n))
	if err != nil {
		return err
	}
	_, err = l.raw.PublishMsgAsync(&nats.Msg{Subject: subject, Header: nats.Header(m.Header), Data: m.Data})
	return err
}

// fillTo is fill for a single session. It returns the sequence of record number
// after.
func (l *harness) fillTo(ctx context.Context, size, after int, s chunk.Session) (uint64, error) {
	if err := l.fill(ctx, after, 1, s); err != nil {
		return 0, err
	}
	last, err := l.reader.Last(ctx, s)
	if err != nil {
		return 0, err
	}
	for n := after; n < size; n++ {
		if err := l.fillOne(s, n); err != nil {
			return 0, err
		}
	}
	return uint64(last.Seq), awaitPublishes(ctx, l.raw)
}

func awaitPublishes(ctx context.Context, js jetstream.JetStream) error {
	select {
	case <-js.PublishAsyncComplete():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
