package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/projector/fold"
)

// longSession is one session that grows to a million chunks and is projected
// meanwhile.
type longSession struct {
	env     *env
	session *sessionWriter
	written []float64 // bytes to the bucket per chunk, while the session grew to the size of the same index
	logged  float64   // bytes to the log per chunk
}

const (
	kvBytes   = "bytes to KV/chunk"
	tookOlder = "ms for an older page"
)

// snapshot measures the cost of a growing session: the bytes written by its
// saves, and the time to open it. The bytes are counted once, because they do
// not depend on the speed of the machine.
func (l *harness) snapshot(ctx context.Context) ([]pair, error) {
	sizes := []int{1000, 10_000, 100_000, 1_000_000}
	if l.cfg.Quick {
		sizes = []int{200, 2000}
	}
	g, err := l.grow(ctx, sizes)
	if err != nil {
		return nil, err
	}
	pairs := []pair{{
		name: fmt.Sprintf("snapshot-%d", sizes[0]), baseline: "bytes to the log", once: true,
		ours: counted(g.written[0]), raw: counted(g.logged),
	}}
	for i, size := range sizes[1:] {
		pairs = append(pairs, pair{
			name: fmt.Sprintf("snapshot-%d", size), baseline: fmt.Sprintf("the first %d chunks", sizes[0]), once: true,
			targets: []target{{figure: kvBytes, ratioAtMost: 1.2}},
			ours:    counted(g.written[i+1]), raw: counted(g.written[0]),
		})
	}
	last := sizes[len(sizes)-1]
	return append(pairs, pair{
		name: fmt.Sprintf("open-%d", last), baseline: "a bare consumer of the same values",
		targets: []target{{figure: took, atMost: 50}}, ours: g.open, raw: g.values,
	}, pair{
		name: fmt.Sprintf("page-%d", last), baseline: "the head alone",
		targets: []target{{figure: took, atMost: 50}}, ours: g.page, raw: g.head,
	}), nil
}

// counted returns a figure that was counted earlier.
func counted(bytes float64) work {
	return func(context.Context, int) (figures, error) { return figures{{kvBytes, bytes}}, nil }
}

func (l *harness) grow(ctx context.Context, sizes []int) (*longSession, error) {
	w, err := l.env(ctx)
	if err != nil {
		return nil, err
	}
	g := &longSession{env: w, session: w.sessionWriter("long")}
	// A subscription to the subjects of a bucket receives every message stored
	// in it.
	var counts []*nats.Subscription
	for _, subject := range []string{"$KV." + names.Layout(w.layout).Snapshots() + ".>", "$O." + names.Layout(w.layout).Objects() + ".>"} {
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
			_ = count.Unsubscribe() // the subscription would end with the connection
		}
	}()
	acked := make(chan struct{}, 4096)
	p, err := w.project(ctx, "ours", w, func(time.Time) {}, func(time.Time) { acked <- struct{}{} })
	if err != nil {
		return nil, err
	}
	defer p.stop()
	const piece = 50_000 // bounds the memory of the pending messages
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

// count returns the number of bytes received since the last call.
func (g *longSession) count(ctx context.Context, counts []*nats.Subscription) (bytes int, err error) {
	if err := g.env.harness.rawConn.Flush(); err != nil {
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

// open reads the complete snapshot: the head, every message, and the later
// records of the log.
func (g *longSession) open(ctx context.Context, _ int) (figures, error) {
	start := time.Now()
	snap, err := g.reader().Snapshot(ctx, g.session.session)
	if err != nil {
		return nil, err
	}
	return figures{{took, ms(time.Since(start))}}, g.exact(snap.Position.Ordinal)
}

func (g *longSession) reader() *projector.Reader {
	return projector.NewReader(g.env.store, g.env.reader)
}

func (g *longSession) exact(last chunk.Ordinal) error {
	if last != g.session.ordinal {
		return fmt.Errorf("snapshot is at record %d, want %d", last, g.session.ordinal)
	}
	return nil
}

// page reads the last 50 messages, and then the 50 before them.
func (g *longSession) page(ctx context.Context, _ int) (figures, error) {
	messages := 50
	if g.env.harness.cfg.Quick {
		messages = 3
	}
	reader, window := g.reader(), fold.PageQuery{Limit: messages, Partial: true}
	var times [2]time.Duration
	for i := range times {
		start := time.Now()
		page, err := reader.MessagePage(ctx, g.session.session, window)
		if err != nil {
			return nil, err
		}
		got := aisdk.Page(page, 0)
		times[i] = time.Since(start)
		if err := g.exact(got.Ordinal); err != nil {
			return nil, err
		}
		if len(got.Messages) != messages {
			return nil, fmt.Errorf("page has %d messages, want %d", len(got.Messages), messages)
		}
		window.Before = *got.Before
	}
	return figures{{took, ms(times[0])}, {tookOlder, ms(times[1])}}, nil
}

// head reads no messages.
func (g *longSession) head(ctx context.Context, _ int) (figures, error) {
	start := time.Now()
	at, _, _, err := g.reader().StoredPosition(ctx, g.session.session)
	if err == nil && at.Seq == 0 {
		err = errors.New("the session has no head")
	}
	return figures{{took, ms(time.Since(start))}}, err
}

// values reads all values of the bucket and discards them.
func (g *longSession) values(ctx context.Context, _ int) (figures, error) {
	stream, err := g.env.harness.raw.Stream(ctx, "KV_"+names.Layout(g.env.layout).Snapshots())
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
