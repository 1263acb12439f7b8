package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/projector/fold"
)

// project measures the projector: the fold alone, a backlog, and the lag during
// writes.
func (l *harness) project(ctx context.Context) ([]pair, error) {
	folding, err := newFolding(l.cfg.size(50_000))
	if err != nil {
		return nil, err
	}
	// Complete turns: nothing remains that would wait for the next timed save.
	b := backlog{sessions: 64, chunks: 64 * 8 * turnChunks}
	if l.cfg.Quick {
		b = backlog{sessions: 5, chunks: 5 * turnChunks}
	}
	if b.env, err = l.env(ctx); err != nil {
		return nil, err
	}
	if err := b.env.write(ctx, b.chunks, b.env.sessionWriters(b.sessions)...); err != nil {
		return nil, err
	}
	d := delay{harness: l, sessions: 50, chunks: l.cfg.size(8000), pace: time.Second / 2000}
	slow := delay{harness: l, sessions: 500, chunks: l.cfg.size(20_000), pace: time.Second / 1000}
	return []pair{
		{name: "project-fold", baseline: "encoding/json of the same bodies", ours: folding.fold, raw: folding.unmarshal},
		{
			name: fmt.Sprintf("project-backlog-%d", b.chunks), baseline: "a bare consumer that pulls and acknowledges",
			targets: []target{{figure: chunksPerSecond, atLeast: 80_000, ratioAtLeast: 0.5}}, ours: b.project, raw: b.consume,
		},
		{
			name: "project-2000/s", baseline: "a bare consumer that pulls and acknowledges",
			targets: []target{{figure: foldDelay, atMost: 100}}, ours: d.project, raw: d.consume,
		},
		{
			name: "project-500x2/s", baseline: "a bare consumer that pulls and acknowledges", ours: slow.project, raw: slow.consume,
		},
	}, nil
}

// folding is the records of a session in memory.
type folding struct {
	session chunk.Session
	records []chunk.Record
}

func newFolding(n int) (*folding, error) {
	s := new(env).sessionWriter("folded")
	f := &folding{session: s.session}
	for range n {
		c := s.chunk()
		data, err := c.AppendJSON(nil)
		if err != nil {
			return nil, err
		}
		f.records = append(f.records, chunk.Record{
			Seq: chunk.Seq(s.ordinal), Session: s.session, Epoch: s.epoch, Ordinal: s.ordinal, Type: c.Type(), Data: data,
		})
	}
	return f, nil
}

const allocations = "allocations/chunk"

// measured calls do for every record and returns the cost per record.
func (f *folding) measured(do func(i int, rec chunk.Record) error) (figures, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	for i, rec := range f.records {
		if err := do(i, rec); err != nil {
			return nil, err
		}
	}
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	each := float64(after.Mallocs-before.Mallocs) / float64(len(f.records))
	return append(rate(len(f.records), took), figure{allocations, each}), nil
}

// fold trims finished messages as often as a Runner does after a save.
func (f *folding) fold(context.Context, int) (figures, error) {
	folder := fold.New(f.session)
	return f.measured(func(i int, rec chunk.Record) error {
		if i%200 == 199 {
			folder.Trim()
		}
		return folder.Apply(rec)
	})
}

func (f *folding) unmarshal(context.Context, int) (figures, error) {
	return f.measured(func(_ int, rec chunk.Record) error {
		var body struct {
			Type    string `json:"type"`
			AgentID string `json:"agentId"`
			Step    int    `json:"step"`
			Content string `json:"content"`
			Delta   string `json:"delta"`
		}
		return json.Unmarshal(rec.Data, &body)
	})
}

// projection is a running Runner.
type projection struct {
	cancel  context.CancelFunc
	running *errgroup.Group
	ended   context.Context //nolint:containedctx // ends with the Runner
}

// project starts a Runner over the log of w that saves to a bucket. handed and
// acked are called for every delivery, acked from many goroutines.
func (w *env) project(ctx context.Context, name string, bucket *env, handed func(stored time.Time), acked func(stored time.Time)) (*projection, error) {
	layout := w.layout
	layout.SnapshotBucket = names.Layout(bucket.layout).Snapshots()
	source, err := jssnapshots.NewSource(w.harness.js, jssnapshots.SourceConfig{Layout: layout, Name: name})
	if err != nil {
		return nil, err
	}
	runner, err := projector.NewRunner(observed{source, handed, acked}, bucket.store, w.reader, projector.Config{})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	running, ended := errgroup.WithContext(ctx)
	running.Go(func() error { return runner.Run(ctx) })
	return &projection{cancel: cancel, running: running, ended: ended}, nil
}

// until waits for done or for the end of the Runner.
func (p *projection) until(done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-p.ended.Done():
		return fmt.Errorf("projector ended: %w", p.running.Wait())
	}
}

// stop ends the Runner and ignores its error, which is context.Canceled.
func (p *projection) stop() {
	p.cancel()
	_ = p.running.Wait()
}

// observed is a Source that reports handed over and acknowledged deliveries.
type observed struct {
	projector.Source

	handed, acked func(stored time.Time)
}

func (o observed) Run(ctx context.Context, take func(context.Context, []projector.Delivery) error) error {
	var stored []time.Time
	return o.Source.Run(ctx, func(ctx context.Context, batch []projector.Delivery) error {
		stored = stored[:0]
		acks := make([]observedAck, len(batch))
		for i := range batch {
			d := &batch[i]
			stored = append(stored, d.Record.StoredAt)
			acks[i] = observedAck{d.Acker, d.Record.StoredAt, o.acked}
			d.Acker = &acks[i]
		}
		err := take(ctx, batch)
		for _, at := range stored {
			o.handed(at)
		}
		return err
	})
}

type observedAck struct {
	projector.Acker

	stored time.Time
	acked  func(time.Time)
}

func (a *observedAck) Ack() error {
	err := a.Acker.Ack()
	a.acked(a.stored)
	return err
}

// countdown returns a function to call n times, and a channel that is closed
// then.
func countdown(n int) (func(), <-chan struct{}) {
	var left atomic.Int64
	left.Store(int64(n))
	done := make(chan struct{})
	return func() {
		if left.Add(-1) == 0 {
			close(done)
		}
	}, done
}

// backlog is a log written before the measurement: everything is read, folded,
// saved and acknowledged.
type backlog struct {
	env              *env
	sessions, chunks int
}

func (b backlog) project(ctx context.Context, round int) (figures, error) {
	bucket, err := b.env.harness.env(ctx)
	if err != nil {
		return nil, err
	}
	return b.measured(func() error {
		one, done := countdown(b.chunks)
		p, err := b.env.project(ctx, fmt.Sprint("ours-", round), bucket, func(time.Time) {}, func(time.Time) { one() })
		if err != nil {
			return err
		}
		defer p.stop()
		return p.until(done)
	})
}

func (b backlog) consume(ctx context.Context, _ int) (figures, error) {
	return b.measured(func() error {
		return b.env.consume(ctx, b.chunks, func(jetstream.Msg) error { return nil })
	})
}

const costOfChunk = "processor us/chunk" // including the server

func (b backlog) measured(do func() error) (figures, error) {
	start := time.Now()
	each, err := costOf(b.chunks, do)
	return append(rate(b.chunks, time.Since(start)), figure{costOfChunk, each}), err
}

// consume pulls n messages without Tailrace and acknowledges each after take.
func (w *env) consume(ctx context.Context, n int, take func(jetstream.Msg) error) error {
	cons, err := w.harness.raw.CreateConsumer(ctx, w.stream(), jetstream.ConsumerConfig{
		AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 20_000, InactiveThreshold: time.Minute,
	})
	if err != nil {
		return err
	}
	msgs, err := cons.Messages(jetstream.PullMaxMessages(1000))
	if err != nil {
		return err
	}
	defer msgs.Stop()
	for range n {
		m, err := msgs.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		if err := take(m); err != nil {
			return err
		}
		if err := m.Ack(); err != nil {
			return err
		}
	}
	if err := w.harness.rawConn.Flush(); err != nil {
		return err
	}
	return w.harness.raw.DeleteConsumer(ctx, w.stream(), cons.CachedInfo().Name)
}

// delay measures how far a reader lags behind the log while sessions are
// written at a steady pace.
type delay struct {
	harness          *harness
	sessions, chunks int
	pace             time.Duration
}

// The figures of delay, measured from when the log stored a chunk.
const (
	foldDelay = "p99 ms to the fold"
	ackDelay  = "p99 ms to the acknowledgement"
)

// times collects durations from many goroutines.
type times struct {
	n   atomic.Int64
	all []time.Duration
}

func newTimes(n int) *times { return &times{all: make([]time.Duration, n)} }

func (t *times) since(stored time.Time) {
	if i := t.n.Add(1); int(i) <= len(t.all) { // more are redeliveries
		t.all[i-1] = time.Since(stored)
	}
}

func (t *times) p99() float64 {
	slices.Sort(t.all)
	return ms(t.all[len(t.all)*99/100])
}

func (d delay) project(ctx context.Context, _ int) (figures, error) {
	w, err := d.harness.env(ctx)
	if err != nil {
		return nil, err
	}
	handed, acked := newTimes(d.chunks), newTimes(d.chunks)
	one, done := countdown(d.chunks)
	each, err := costOf(d.chunks, func() error {
		p, err := w.project(ctx, "ours", w, handed.since, func(stored time.Time) { acked.since(stored); one() })
		if err != nil {
			return err
		}
		defer p.stop() // no times are recorded from here on
		if err := d.write(ctx, w); err != nil {
			return err
		}
		return p.until(done)
	})
	if err != nil {
		return nil, err
	}
	return figures{{foldDelay, handed.p99()}, {ackDelay, acked.p99()}, {costOfChunk, each}}, nil
}

func (d delay) consume(ctx context.Context, _ int) (figures, error) {
	w, err := d.harness.env(ctx)
	if err != nil {
		return nil, err
	}
	taken := newTimes(d.chunks)
	each, err := costOf(d.chunks, func() error {
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error { return d.write(ctx, w) })
		group.Go(func() error {
			return w.consume(ctx, d.chunks, func(m jetstream.Msg) error {
				meta, err := m.Metadata()
				if err == nil {
					taken.since(meta.Timestamp)
				}
				return err
			})
		})
		return group.Wait()
	})
	if err != nil {
		return nil, err
	}
	p99 := taken.p99()
	return figures{{foldDelay, p99}, {ackDelay, p99}, {costOfChunk, each}}, nil
}

// write publishes the chunks at the configured pace.
func (d delay) write(ctx context.Context, w *env) error {
	writers := w.sessionWriters(d.sessions)
	err := paced(ctx, d.chunks, d.pace, func(k int) error { return writers[k%len(writers)].publish() })
	if err != nil {
		return err
	}
	return awaitPublishes(ctx, d.harness.raw)
}
