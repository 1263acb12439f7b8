package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/subjects"
)

// bursts measures writers that emit some chunks that are not merged, wait until all are stored, and repeat that. The log has one replica or three, and each
// server is a process of its own.
type bursts struct {
	harness  *harness
	replicas int
	cluster  *cluster
	js, raw  jetstream.JetStream // of Tailrace and of the baseline
	producer *producers.Producer
}

func (l *harness) bursts() []pair {
	r1, r3 := &bursts{harness: l, replicas: 1}, &bursts{harness: l, replicas: 3}
	two := r3.pair(1, 2, 1)
	two.baseline, two.targets = "jetstream.PublishMsgAsync, wait for each", []target{{figure: chunksPerSecond, ratioAtLeast: 1.3}}
	return []pair{r1.pair(1, 100, 100), r1.pair(64, 10, 10), r3.pair(1, 100, 100), r3.pair(64, 10, 10), two}
}

// pair compares runs that emit so many chunks between two calls of Flush with writers that wait for so many messages at once.
func (b *bursts) pair(writers, ours, raw int) pair {
	name := fmt.Sprintf("burst-%d-r%d", ours, b.replicas)
	if writers > 1 {
		name = fmt.Sprintf("burst-%d-%d-r%d", ours, writers, b.replicas)
	}
	return pair{
		name: name, baseline: "jetstream.PublishMsgAsync, same messages, wait for all of a burst",
		targets: []target{{figure: chunksPerSecond, ratioAtLeast: 0.8}},
		ours: func(ctx context.Context, round int) (figures, error) {
			return b.measure(ctx, writers, ours, 1, func(ctx context.Context, i int) (func(context.Context, int) error, func() error, error) {
				return b.run(ctx, rootSession(fmt.Sprintf("%s-o%d-%d", name, round, i)), ours)
			})
		},
		raw: func(ctx context.Context, round int) (figures, error) {
			return b.measure(ctx, writers, raw, 0, func(_ context.Context, i int) (func(context.Context, int) error, func() error, error) {
				return b.messages(rootSession(fmt.Sprintf("%s-r%d-%d", name, round, i)), raw)
			})
		},
	}
}

// start starts the servers, creates the streams as setup does, and connects.
func (b *bursts) start(ctx context.Context) (err error) {
	if b.producer != nil {
		return nil
	}
	closeLast := func(c func() error) { b.harness.closers = append(b.harness.closers, c) }
	if b.cluster, err = startCluster(ctx, filepath.Join(b.harness.dir, "burst"), b.replicas); err != nil {
		return err
	}
	closeLast(func() error { return b.cluster.stop(false) })
	for _, js := range []*jetstream.JetStream{&b.js, &b.raw} {
		var nc *nats.Conn
		if nc, *js, err = dial(b.cluster.urls[0]); err != nil {
			return err
		}
		closeLast(func() error {
			nc.Close()
			return nil
		})
	}
	if err := ensure(ctx, b.js, topology.Config{Replicas: b.replicas}); err != nil {
		return err
	}
	b.producer, err = producers.New(b.js, producers.Config{Positions: jssnapshots.NewPositions(b.js, subjects.Layout{}), Log: slog.New(slog.DiscardHandler)})
	if err == nil {
		closeLast(b.producer.Close)
	}
	return err
}

// measure repeats the bursts of the writers for a second. Each writer has stored opening records before. All chunks must be in the log.
func (b *bursts) measure(ctx context.Context, writers, size, opening int, open writer) (_ figures, err error) {
	if err := b.start(ctx); err != nil {
		return nil, err
	}
	writes, done, err := openWriters(ctx, writers, open)
	defer done()
	if err != nil {
		return nil, err
	}
	length := time.Duration(b.harness.cfg.size(1000)) * time.Millisecond
	var chunks int
	var took time.Duration
	used, err := usedBy(b.processor, func() (err error) {
		chunks, took, err = parallel(ctx, writes, func(_ int, since time.Duration) bool { return since < length })
		chunks *= size
		return err
	})
	if err != nil {
		return nil, err
	}
	log, err := b.js.Stream(ctx, subjects.Layout{}.Stream(0))
	if err != nil {
		return nil, err
	}
	if stored := int(log.CachedInfo().State.Msgs); stored != chunks+writers*opening {
		return nil, fmt.Errorf("%d records in the log, want %d", stored, chunks+writers*opening)
	}
	each := figure{chunkCost, micros(used) / float64(chunks)}
	return append(rate(chunks, took), each), log.Purge(ctx)
}

// processor returns the processor time of this process and of the servers so far.
func (b *bursts) processor() (time.Duration, error) {
	here, err := processorTime()
	servers, errServers := b.cluster.processor()
	return here + servers, errors.Join(err, errServers)
}

func (b *bursts) run(ctx context.Context, s chunk.Session, size int) (func(context.Context, int) error, func() error, error) {
	run, err := b.producer.Start(ctx, s, chunk.RunStarted{Mode: "execute"}, producers.AgentType("bench"))
	if err != nil {
		return nil, nil, err
	}
	burst := func(ctx context.Context, _ int) error {
		for n := range size {
			if err := run.Emit(ctx, small(s, n)); err != nil {
				return err
			}
		}
		_, err := run.Flush(ctx)
		return err
	}
	return burst, run.Close, nil
}

// messages is the minimum: the messages of a burst are encoded once, and each burst publishes them.
func (b *bursts) messages(s chunk.Session, size int) (func(context.Context, int) error, func() error, error) {
	subject, err := subjects.Layout{}.Subject(s)
	if err != nil {
		return nil, nil, err
	}
	all := make([]*nats.Msg, size)
	for n := range all {
		m, err := codec.Encode(codec.Envelope{Session: s, Epoch: 1, Ordinal: chunk.Ordinal(n + 2)}, small(s, n))
		if err != nil {
			return nil, nil, err
		}
		all[n] = &nats.Msg{Subject: subject, Header: nats.Header(m.Header), Data: m.Data}
	}
	acks := make([]jetstream.PubAckFuture, size)
	burst := func(ctx context.Context, _ int) (err error) {
		for n, m := range all {
			if acks[n], err = b.raw.PublishMsgAsync(m); err != nil {
				return err
			}
		}
		for _, ack := range acks {
			select {
			case <-ack.Ok():
			case err := <-ack.Err():
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	}
	return burst, func() error { return nil }, nil
}

// small is event with about 150 bytes.
func small(s chunk.Session, n int) chunk.Chunk {
	c := event(s, n)
	c.Body = chunk.Custom{EventName: "bench", Data: chunk.Value(fmt.Sprintf(`{"n":%d}`, n))}
	return c
}
