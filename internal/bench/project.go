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
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/projector/natssource"
)

// project measures the projector: the fold alone, a backlog, and how far behind
// the log it is when somebody writes.
func (l *lab) project(ctx context.Context) ([]pair, error) {
	folding, err := newFolding(l.cfg.size(50_000))
	if err != nil {
		return nil, err
	}
	// Whole turns: nothing is left that would wait for the time of its save.
	b := backlog{sessions: 64, chunks: 64 * 8 * turnChunks}
	if l.cfg.Quick {
		b = backlog{sessions: 5, chunks: 5 * turnChunks}
	}
	if b.world, err = l.world(ctx); err != nil {
		return nil, err
	}
	if err := b.world.write(ctx, b.chunks, b.world.scribes(b.sessions)...); err != nil {
		return nil, err
	}
	d := delay{lab: l, sessions: 50, chunks: l.cfg.size(8000), pace: time.Second / 2000}
	return []pair{
		{name: "project-fold", floor: "encoding/json of the same bodies", ours: folding.fold, raw: folding.unmarshal},
		{
			name: fmt.Sprintf("project-backlog-%d", b.chunks), floor: "a bare consumer that pulls and acknowledges",
			aims: []aim{{figure: chunksPerSecond, atLeast: 80_000, ratioFrom: 0.5}}, ours: b.project, raw: b.consume,
		},
		{
			name: "project-2000/s", floor: "a bare consumer that pulls and acknowledges",
			aims: []aim{{figure: behind, atMost: 100}}, ours: d.project, raw: d.consume,
		},
	}, nil
}

// folding is a session in memory.
type folding struct {
	session chunk.Session
	records []chunk.Record
}

func newFolding(n int) (*folding, error) {
	s := new(world).scribe("folded")
	f := &folding{session: s.session}
	for range n {
		c := s.chunk()
		data, err := c.AppendJSON(nil)
		if err != nil {
			return nil, err
		}
		f.records = append(f.records, chunk.Record{
			Seq: chunk.Seq(s.ordinal), Session: s.session, Epoch: 1, Ordinal: s.ordinal, Type: c.Body.Type(), Data: data,
		})
	}
	return f, nil
}

const allocations = "allocations/chunk"

// measured lets do handle every record, and says what one costs.
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

// fold lets finished messages go as often as a Runner does, which has saved them.
func (f *folding) fold(context.Context, int) (figures, error) {
	snap := fold.New(f.session)
	return f.measured(func(i int, rec chunk.Record) (err error) {
		if i%200 == 199 {
			snap = snap.Release()
		}
		snap, err = fold.Apply(snap, rec)
		return err
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

// projection is a Runner at work.
type projection struct {
	cancel  context.CancelFunc
	running *errgroup.Group
	ended   context.Context //nolint:containedctx // over when the Runner is
}

// project starts a Runner over the log of w that saves to a bucket. handed and
// acked hear of every delivery, acked from many goroutines.
func (w *world) project(ctx context.Context, name string, bucket *world, handed func(stored time.Time), acked func(stored time.Time)) (*projection, error) {
	source, err := natssource.New(w.lab.js, natssource.Config{Layout: w.layout, Name: name, Bucket: bucket.layout.Snapshots()})
	if err != nil {
		return nil, err
	}
	runner, err := projector.NewRunner(observed{source, handed, acked}, bucket.store, natssource.Log{Reader: w.reader}, projector.Config{})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	running, ended := errgroup.WithContext(ctx)
	running.Go(func() error { return runner.Run(ctx) })
	return &projection{cancel: cancel, running: running, ended: ended}, nil
}

// until waits for done, or for the end of the Runner.
func (p *projection) until(done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-p.ended.Done():
		return fmt.Errorf("the projector ended: %w", p.running.Wait())
	}
}

// stop ends the Runner, which says no more than that.
func (p *projection) stop() {
	p.cancel()
	_ = p.running.Wait()
}

// observed is a Source that tells what becomes of its deliveries.
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
			stored = append(stored, d.Record.Stored)
			acks[i] = observedAck{d.Acker, d.Record.Stored, o.acked}
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

// countdown returns a function to call n times, and what is closed then.
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

// backlog is a log that was written before: everything is read, folded, saved
// and acknowledged.
type backlog struct {
	world            *world
	sessions, chunks int
}

func (b backlog) project(ctx context.Context, round int) (figures, error) {
	bucket, err := b.world.lab.world(ctx)
	if err != nil {
		return nil, err
	}
	return b.measured(func() error {
		one, done := countdown(b.chunks)
		p, err := b.world.project(ctx, fmt.Sprint("ours-", round), bucket, func(time.Time) {}, func(time.Time) { one() })
		if err != nil {
			return err
		}
		defer p.stop()
		return p.until(done)
	})
}

func (b backlog) consume(ctx context.Context, _ int) (figures, error) {
	return b.measured(func() error {
		return b.world.consume(ctx, b.chunks, func(jetstream.Msg) error { return nil })
	})
}

const costOfChunk = "processor us/chunk" // with the server's part

func (b backlog) measured(do func() error) (figures, error) {
	before, err := processorTime()
	if err != nil {
		return nil, err
	}
	start := time.Now()
	if err := do(); err != nil {
		return nil, err
	}
	took := time.Since(start)
	after, err := processorTime()
	each := float64((after - before).Nanoseconds()) / 1e3 / float64(b.chunks)
	return append(rate(b.chunks, took), figure{costOfChunk, each}), err
}

// consume pulls n messages with nothing of ours and acknowledges each after take.
func (w *world) consume(ctx context.Context, n int, take func(jetstream.Msg) error) error {
	cons, err := w.lab.raw.CreateConsumer(ctx, w.stream(), jetstream.ConsumerConfig{
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
	if err := w.lab.rawConn.Flush(); err != nil {
		return err
	}
	return w.lab.raw.DeleteConsumer(ctx, w.stream(), cons.CachedInfo().Name)
}

// delay measures how far behind the log somebody is that reads while sessions
// are written at a steady pace.
type delay struct {
	lab              *lab
	sessions, chunks int
	pace             time.Duration
}

// The figures of delay, both from when the log stored a chunk.
const (
	behind     = "p99 ms to the fold"
	safeBehind = "p99 ms to the acknowledgement"
)

// times are gathered from many goroutines.
type times struct {
	n   atomic.Int64
	all []time.Duration
}

func newTimes(n int) *times { return &times{all: make([]time.Duration, n)} }

func (t *times) since(stored time.Time) {
	if i := t.n.Add(1); int(i) <= len(t.all) { // beyond are repeats
		t.all[i-1] = time.Since(stored)
	}
}

func (t *times) p99() float64 {
	slices.Sort(t.all)
	return ms(t.all[len(t.all)*99/100])
}

func (d delay) project(ctx context.Context, _ int) (figures, error) {
	w, err := d.lab.world(ctx)
	if err != nil {
		return nil, err
	}
	handed, acked := newTimes(d.chunks), newTimes(d.chunks)
	one, done := countdown(d.chunks)
	p, err := w.project(ctx, "ours", w, handed.since, func(stored time.Time) { acked.since(stored); one() })
	if err != nil {
		return nil, err
	}
	defer p.stop()
	if err := d.write(ctx, w); err != nil {
		return nil, err
	}
	if err := p.until(done); err != nil {
		return nil, err
	}
	p.stop() // and nobody gathers times any more
	return figures{{behind, handed.p99()}, {safeBehind, acked.p99()}}, nil
}

func (d delay) consume(ctx context.Context, _ int) (figures, error) {
	w, err := d.lab.world(ctx)
	if err != nil {
		return nil, err
	}
	taken := newTimes(d.chunks)
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
	err = group.Wait()
	p99 := taken.p99()
	return figures{{behind, p99}, {safeBehind, p99}}, err
}

// write publishes the chunks when they are due.
func (d delay) write(ctx context.Context, w *world) error {
	scribes := w.scribes(d.sessions)
	err := paced(ctx, d.chunks, d.pace, func(k int) error { return scribes[k%len(scribes)].publish() })
	if err != nil {
		return err
	}
	return settled(ctx, d.lab.raw)
}
