package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/codec/helix"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/hub"
	"github.com/tailrace/tailrace/internal/jsinterest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/subjects"
)

// feeds measures what edges cost three servers that hold the log with three replicas: with a feed of the partition, and with one of each session that is
// watched. Each edge watches its own random choice of the sessions.
type feeds struct {
	harness  *harness
	cluster  *cluster
	writer   *nats.Conn
	sessions int
	chunks   int
	pace     time.Duration // between two chunks
}

// The figures of an edge.
const (
	egress    = "bytes/edge and chunk"
	processor = "server us/edge and chunk"
)

// feeds returns a pair for each number of edges and each share of the sessions that they watch.
func (l *harness) feeds() []pair {
	f := &feeds{harness: l, sessions: 1000, chunks: l.cfg.size(15_000), pace: 400 * time.Microsecond}
	var pairs []pair
	for _, edges := range []int{2, 4, 8} {
		for _, percent := range []int{1, 20} {
			measure := func(interest bool) work {
				return func(ctx context.Context, _ int) (figures, error) {
					return f.measure(ctx, interest, edges, f.sessions*percent/100)
				}
			}
			pairs = append(pairs, pair{
				name: fmt.Sprintf("feeds-%d-edges-%d%%", edges, percent), baseline: "feed of the partition", ours: measure(true), raw: measure(false),
			})
		}
	}
	return pairs
}

// start starts the servers and creates the streams.
func (f *feeds) start(ctx context.Context) (err error) {
	if f.cluster != nil {
		return nil
	}
	if f.cluster, err = startCluster(ctx, f.harness.dir, 3); err != nil {
		return err
	}
	f.harness.closers = append(f.harness.closers, func() error { return f.cluster.stop(false) })
	if f.writer, err = nats.Connect(f.cluster.urls[0]); err != nil {
		return err
	}
	f.harness.closers = append(f.harness.closers, func() error {
		f.writer.Close()
		return nil
	})
	for _, interest := range []bool{false, true} {
		if err := f.create(ctx, interest); err != nil {
			return err
		}
	}
	return nil
}

// layout returns the names of a stream that republishes, or does not.
func (*feeds) layout(interest bool) subjects.Layout {
	if interest {
		return subjects.Layout{Prefix: "interest"}
	}
	return subjects.Layout{Prefix: "partition"}
}

func (f *feeds) create(ctx context.Context, interest bool) error {
	streams, err := topology.Streams(topology.Config{Layout: f.layout(interest), Replicas: 3, Republish: interest})
	if err != nil {
		return err
	}
	js, err := jetstream.New(f.writer)
	if err != nil {
		return err
	}
	for ctx.Err() == nil { // the servers may still be electing a leader
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		_, err = js.CreateStream(attempt, streams[0])
		cancel()
		if err == nil {
			return nil
		}
	}
	return errors.Join(ctx.Err(), err)
}

// measure runs edges that watch so many sessions each. The cost of an edge is what the servers use more than without edges and without republishing, which is
// measured immediately before.
func (f *feeds) measure(ctx context.Context, interest bool, edges, watched int) (figures, error) {
	if err := f.start(ctx); err != nil {
		return nil, err
	}
	alone, err := f.publish(ctx, f.layout(false), func(int) {})
	if err != nil {
		return nil, err
	}
	if err := f.purge(ctx, f.layout(false)); err != nil {
		return nil, err
	}
	layout := f.layout(interest)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	all := make([]*feedEdge, edges)
	readers := make([]int, f.sessions) // edges that watch a session
	for i := range all {
		e, err := newFeedEdge(f.cluster.urls[i%len(f.cluster.urls)], layout, interest)
		if err != nil {
			return nil, err
		}
		all[i] = e
		running.Go(func() {
			_ = e.hub.Run(ctx)
			e.conn.Close()
		})
		for _, n := range rand.Perm(f.sessions)[:watched] {
			cur, err := e.hub.Subscribe(ctx, hub.Request{Session: rootSession(sessionName(n)), KeepOpen: true})
			if err != nil {
				return nil, err
			}
			readers[n]++
			running.Go(func() { e.read(ctx, cur) })
		}
	}
	var received uint64
	for _, e := range all {
		received -= e.conn.Stats().InBytes
	}
	want := int64(0)
	used, err := f.publish(ctx, layout, func(n int) { want += int64(readers[n]) })
	if err != nil {
		return nil, err
	}
	if err := awaitDeliveries(ctx, all, want); err != nil {
		return nil, err
	}
	for _, e := range all {
		received += e.conn.Stats().InBytes
	}
	per := float64(f.chunks * edges)
	if err := f.purge(ctx, layout); err != nil {
		return nil, err
	}
	cost := float64(used-alone) / 1e3 / per
	return figures{{egress, float64(received) / per}, {processor, cost}}, nil
}

func sessionName(n int) string { return fmt.Sprint("watched-", n) }

// publish publishes the chunks, each of the next session, and returns the processor time of the servers.
func (f *feeds) publish(ctx context.Context, layout subjects.Layout, published func(session int)) (time.Duration, error) {
	js, err := jetstream.New(f.writer, jetstream.WithPublishAsyncMaxPending(512))
	if err != nil {
		return 0, err
	}
	before, err := f.cluster.processor()
	if err != nil {
		return 0, err
	}
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	began := time.Now()
	for i := range f.chunks {
		for time.Since(began) < time.Duration(i)*f.pace {
			<-ticker.C
		}
		n := i % f.sessions
		s := rootSession(sessionName(n))
		subject, err := layout.Subject(s)
		if err != nil {
			return 0, err
		}
		m, err := codec.Encode(codec.Envelope{Session: s, Epoch: 1, Ordinal: chunk.Ordinal(i/f.sessions + 1)}, event(s, i))
		if err != nil {
			return 0, err
		}
		if _, err := js.PublishMsgAsync(&nats.Msg{Subject: subject, Header: nats.Header(m.Header), Data: m.Data}, jetstream.WithStallWait(30*time.Second)); err != nil {
			return 0, err
		}
		published(n)
	}
	if err := awaitPublishes(ctx, js); err != nil {
		return 0, err
	}
	after, err := f.cluster.processor()
	if err != nil {
		return 0, err
	}
	return after - before, nil
}

// purge removes what was published.
func (f *feeds) purge(ctx context.Context, layout subjects.Layout) error {
	js, err := jetstream.New(f.writer)
	if err != nil {
		return err
	}
	stream, err := js.Stream(ctx, layout.Stream(0))
	if err != nil {
		return err
	}
	return stream.Purge(ctx)
}

// feedEdge is the hub of an edge.
type feedEdge struct {
	conn *nats.Conn
	hub  *hub.Hub
	got  atomic.Int64 // records, all cursors together
}

func newFeedEdge(url string, layout subjects.Layout, interest bool) (*feedEdge, error) {
	conn, js, err := dial(url)
	if err != nil {
		return nil, err
	}
	e := &feedEdge{conn: conn}
	reader, err := consumers.New(js, consumers.Config{Layout: layout})
	if err != nil {
		return nil, err
	}
	feed := hub.ByPartition(reader, layout.PartitionCount(), layout.Partition)
	if interest {
		if feed, err = jsinterest.New(js, jsinterest.Config{Layout: layout}); err != nil {
			return nil, err
		}
	}
	e.hub, err = hub.New(reader, feed, hub.Config{Encode: helix.Encode})
	return e, err
}

func (e *feedEdge) read(ctx context.Context, cur *hub.Cursor) {
	defer cur.Close()
	for {
		batch, err := cur.Next(ctx, nil)
		if err != nil {
			return
		}
		e.got.Add(int64(batch.Records))
	}
}

// awaitDeliveries waits until the edges have delivered all chunks, each once.
func awaitDeliveries(ctx context.Context, edges []*feedEdge, want int64) error {
	for deadline := time.Now().Add(30 * time.Second); ; {
		got := int64(0)
		for _, e := range edges {
			got += e.got.Load()
		}
		switch {
		case got == want:
			return nil
		case got > want || time.Now().After(deadline):
			return fmt.Errorf("%d chunks delivered, want %d: %w", got, want, io.ErrUnexpectedEOF)
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
