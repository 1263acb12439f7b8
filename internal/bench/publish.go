package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/subjects"
)

// publish measures a synchronous writer: each chunk is stored before the next
// one is written. The baseline publishes the same bytes with the same headers
// and the same expected sequence through jetstream.PublishMsg.
func (l *harness) publish() []pair {
	one := func(sessions, each int, name string) pair {
		return pair{
			name: name, targets: []target{{figure: chunksPerSecond, ratioAtLeast: 0.85}}, baseline: "jetstream.PublishMsg, same headers",
			ours: func(ctx context.Context, round int) (figures, error) {
				return written(ctx, sessions, each, func(ctx context.Context, i int) (func(context.Context, int) error, func() error, error) {
					return l.ourWriter(ctx, chunk.RootSession("bench", fmt.Sprintf("%s-o%d-%d", name, round, i)))
				})
			},
			raw: func(ctx context.Context, round int) (figures, error) {
				return written(ctx, sessions, each, func(_ context.Context, i int) (func(context.Context, int) error, func() error, error) {
					return l.rawWriter(chunk.RootSession("bench", fmt.Sprintf("%s-r%d-%d", name, round, i)))
				})
			},
		}
	}
	return []pair{one(1, l.cfg.size(3000), "publish-1-session"), one(64, l.cfg.size(400), "publish-64-sessions")}
}

// writer returns the function that writes the n-th chunk of a session, and the
// function that closes it.
type writer func(ctx context.Context, i int) (write func(ctx context.Context, n int) error, done func() error, err error)

// written measures the writes of concurrent sessions, without opening them.
func written(ctx context.Context, sessions, each int, open writer) (figures, error) {
	writes, done, err := openWriters(ctx, sessions, open)
	defer done()
	if err != nil {
		return nil, err
	}
	n, took, err := parallel(ctx, writes, func(n int, _ time.Duration) bool { return n < each })
	return rate(n, took), err
}

// openWriters opens n writers, and returns the function that closes them.
func openWriters(ctx context.Context, n int, open writer) (writes []func(context.Context, int) error, done func(), err error) {
	var closers []func() error
	done = func() {
		for _, c := range closers {
			_ = c() // the chunks are stored already
		}
	}
	for i := range n {
		write, c, err := open(ctx, i)
		if err != nil {
			return nil, done, err
		}
		writes, closers = append(writes, write), append(closers, c)
	}
	return writes, done, nil
}

// parallel repeats each write while more returns true for its number and the time since the start. It returns the number of writes.
func parallel(ctx context.Context, writes []func(context.Context, int) error, more func(n int, since time.Duration) bool) (int, time.Duration, error) {
	var all atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	start := time.Now()
	for _, write := range writes {
		group.Go(func() error {
			n := 0
			for ; more(n, time.Since(start)); n++ {
				if err := write(ctx, n); err != nil {
					return err
				}
			}
			all.Add(int64(n))
			return nil
		})
	}
	err := group.Wait()
	return int(all.Load()), time.Since(start), err
}

func (l *harness) ourWriter(ctx context.Context, s chunk.Session) (func(context.Context, int) error, func() error, error) {
	run, err := l.producer.Start(ctx, s, chunk.RunStarted{Mode: "execute"}, producers.AgentType("bench"))
	if err != nil {
		return nil, nil, err
	}
	write := func(ctx context.Context, n int) error {
		_, err := run.Write(ctx, event(s, n))
		return err
	}
	return write, run.Close, nil
}

func (l *harness) rawWriter(s chunk.Session) (func(context.Context, int) error, func() error, error) {
	w, err := newRawWriter(l.raw, s)
	if err != nil {
		return nil, nil, err
	}
	return w.write, func() error { return nil }, nil
}

// rawWriter is a writer that shares only the encoding with Tailrace.
type rawWriter struct {
	js      jetstream.JetStream
	session chunk.Session
	subject string
	last    uint64
}

func newRawWriter(js jetstream.JetStream, s chunk.Session) (*rawWriter, error) {
	subject, err := subjects.Layout{}.Subject(s)
	return &rawWriter{js: js, session: s, subject: subject}, err
}

func (w *rawWriter) write(ctx context.Context, n int) error {
	m, err := codec.Encode(codec.Envelope{Session: w.session, Epoch: 1, Ordinal: chunk.Ordinal(n + 1)}, event(w.session, n))
	if err != nil {
		return err
	}
	msg := &nats.Msg{Subject: w.subject, Header: nats.Header(m.Header), Data: m.Data}
	ack, err := w.js.PublishMsg(ctx, msg, jetstream.WithExpectLastSequencePerSubject(w.last))
	if err != nil {
		return err
	}
	w.last = ack.Sequence
	return nil
}
