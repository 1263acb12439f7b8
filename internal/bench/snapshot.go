package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/projector/natssource"
)

// long is one session that grows to a million chunks, projected while it does.
type long struct {
	world   *world
	session *scribe
	written []float64 // bytes to the bucket for each chunk, while it grew to the size of the same index
	logged  float64   // bytes to the log for each chunk
}

const (
	kvBytes   = "bytes to KV/chunk"
	tookOlder = "ms for an older page"
)

// snapshot measures what a session costs that grows and grows: what its saves
// write, and what it takes to open it. What is written is counted once: it does
// not depend on the speed of the machine.
func (l *lab) snapshot(ctx context.Context) ([]pair, error) {
	sizes := []int{1000, 10_000, 100_000, 1_000_000}
	if l.cfg.Quick {
		sizes = []int{200, 2000}
	}
	g, err := l.grow(ctx, sizes)
	if err != nil {
		return nil, err
	}
	pairs := []pair{{
		name: fmt.Sprintf("snapshot-%d", sizes[0]), floor: "bytes to the log", once: true,
		ours: counted(g.written[0]), raw: counted(g.logged),
	}}
	for i, size := range sizes[1:] {
		pairs = append(pairs, pair{
			name: fmt.Sprintf("snapshot-%d", size), floor: fmt.Sprintf("the first %d chunks", sizes[0]), once: true,
			aims: []aim{{figure: kvBytes, ratioUpTo: 1.2}},
			ours: counted(g.written[i+1]), raw: counted(g.written[0]),
		})
	}
	last := sizes[len(sizes)-1]
	return append(pairs, pair{
		name: fmt.Sprintf("open-%d", last), floor: "a bare consumer of the same values",
		aims: []aim{{figure: took, atMost: 50}}, ours: g.open, raw: g.values,
	}, pair{
		name: fmt.Sprintf("page-%d", last), floor: "the head alone",
		aims: []aim{{figure: took, atMost: 50}}, ours: g.page, raw: g.head,
	}), nil
}

// counted gives what was counted before.
func counted(bytes float64) work {
	return func(context.Context, int) (figures, error) { return figures{{kvBytes, bytes}}, nil }
}

func (l *lab) grow(ctx context.Context, sizes []int) (*long, error) {
	w, err := l.world(ctx)
	if err != nil {
		return nil, err
	}
	g := &long{world: w, session: w.scribe("long")}
	// A message for a bucket passes by everybody who listens to its subject.
	var counts []*nats.Subscription
	for _, subject := range []string{"$KV." + w.layout.Snapshots() + ".>", "$O." + w.layout.Objects() + ".>"} {
		count, err := l.rawConn.SubscribeSync(subject)
		if err != nil {
			return nil, err
		}
		if err := count.SetPendingLimits(-1, -1); err != nil {
			return nil, err
		}
		counts = append(counts, count)
	}
	defer func() {
		for _, count := range counts {
			_ = count.Unsubscribe() // it would end with the connection as well
		}
	}()
	acked := make(chan struct{}, 4096)
	p, err := w.project(ctx, "ours", w, func(time.Time) {}, func(time.Time) { acked <- struct{}{} })
	if err != nil {
		return nil, err
	}
	defer p.stop()
	const piece = 50_000 // so that what is counted does not fill the memory
	for n, total := 0, 0; len(g.written) < len(sizes); {
		size := sizes[len(g.written)]
		from := 0
		if i := len(g.written); i > 0 {
			from = sizes[i-1]
		}
		more := min(piece, size-n)
		if err := w.write(ctx, more, g.session); err != nil {
			return nil, err
		}
		for range more {
			if err := p.until(acked); err != nil {
				return nil, err
			}
		}
		bytes, err := g.count(ctx, counts)
		if err != nil {
			return nil, err
		}
		n, total = n+more, total+bytes
		if n == size {
			g.written = append(g.written, float64(total)/float64(size-from))
			total = 0
		}
	}
	g.logged = float64(g.session.bytes) / float64(g.session.ordinal)
	return g, nil
}

// count is how many bytes have passed by since the last count.
func (g *long) count(ctx context.Context, counts []*nats.Subscription) (bytes int, err error) {
	if err := g.world.lab.rawConn.Flush(); err != nil {
		return 0, err
	}
	for _, count := range counts {
		waiting, _, err := count.Pending()
		if err != nil {
			return 0, err
		}
		for range waiting {
			m, err := count.NextMsgWithContext(ctx)
			if err != nil {
				return 0, err
			}
			bytes += m.Size()
		}
	}
	return bytes, nil
}

// open reads the complete snapshot: the head, every message, and what the log
// has behind them.
func (g *long) open(ctx context.Context, _ int) (figures, error) {
	start := time.Now()
	snap, err := g.reader().Snapshot(ctx, g.session.session)
	if err != nil {
		return nil, err
	}
	return figures{{took, ms(time.Since(start))}}, g.exact(snap.Position.Ordinal)
}

func (g *long) reader() *projector.Reader {
	return projector.NewReader(g.world.store, natssource.Log{Reader: g.world.reader})
}

func (g *long) exact(last chunk.Ordinal) error {
	if last != g.session.ordinal {
		return fmt.Errorf("the snapshot is of record %d, want %d", last, g.session.ordinal)
	}
	return nil
}

// page reads the last 50 messages of it, and then the 50 before them.
func (g *long) page(ctx context.Context, _ int) (figures, error) {
	messages := 50
	if g.world.lab.cfg.Quick {
		messages = 3
	}
	reader, window := g.reader(), fold.Window{Limit: messages, Partial: true}
	var times [2]time.Duration
	for i := range times {
		start := time.Now()
		page, err := reader.Page(ctx, g.session.session, window)
		if err != nil {
			return nil, err
		}
		got := page.Frontend(0)
		times[i] = time.Since(start)
		if err := g.exact(got.Ordinal); err != nil {
			return nil, err
		}
		if len(got.Messages) != messages {
			return nil, fmt.Errorf("a page of %d messages, want %d", len(got.Messages), messages)
		}
		window.Before = *got.Before
	}
	return figures{{took, ms(times[0])}, {tookOlder, ms(times[1])}}, nil
}

// head reads no message at all.
func (g *long) head(ctx context.Context, _ int) (figures, error) {
	start := time.Now()
	_, _, err := g.reader().Head(ctx, g.session.session)
	return figures{{took, ms(time.Since(start))}}, err
}

// values reads what the bucket holds, in one go, for nobody.
func (g *long) values(ctx context.Context, _ int) (figures, error) {
	stream, err := g.world.lab.raw.Stream(ctx, "KV_"+g.world.layout.Snapshots())
	if err != nil {
		return nil, err
	}
	n := stream.CachedInfo().State.Msgs
	start := time.Now()
	cons, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return nil, err
	}
	msgs, err := cons.Messages()
	if err != nil {
		return nil, err
	}
	defer msgs.Stop()
	for range n {
		if _, err := msgs.Next(jetstream.NextContext(ctx)); err != nil {
			return nil, err
		}
	}
	return figures{{took, ms(time.Since(start))}}, nil
}
