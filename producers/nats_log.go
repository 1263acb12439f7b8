package producers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/jspartitions"
)

// natsLog is the log of one session in JetStream.
type natsLog struct {
	client    *jsclient.Client
	publisher *jsclient.SubjectPublisher
	writer    *jspartitions.Writer
	target    atomic.Pointer[jspartitions.Target]
	timeout   time.Duration // of one attempt or request
	slog      *slog.Logger
}

// newNATSLog returns the log of s. The error wraps chunk.ErrInvalid if s or the layout is invalid.
func (p *Producer) newNATSLog(ctx context.Context, s chunk.Session) (*natsLog, error) {
	if _, err := p.cfg.Layout.Subject(s); err != nil {
		return nil, fmt.Errorf("%w: %w", chunk.ErrInvalid, err)
	}
	writer, err := p.partitions.Writer(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("find the partition: %w", err)
	}
	l := &natsLog{client: p.client, writer: writer, timeout: p.cfg.AttemptTimeout, slog: p.cfg.Log}
	if err := l.retarget(); err != nil {
		return nil, err
	}
	t := l.target.Load()
	l.publisher = p.publisher.Open(t.Stream, t.Publish)
	return l, nil
}

// retarget takes the present target of the writer.
func (l *natsLog) retarget() error {
	t, err := l.writer.Target()
	if err != nil {
		return err
	}
	l.target.Store(&t)
	return nil
}

func (l *natsLog) close() { l.publisher.Close() }

func (l *natsLog) stream() string { return l.target.Load().Stream }

func (l *natsLog) maxMessageSize() int {
	if n := l.client.JetStream().Conn().MaxPayload(); n > 0 {
		return int(n)
	}
	return 1 << 20 // not connected yet: the default of the server
}

func (l *natsLog) publish(ctx context.Context, m outgoing, abandon <-chan struct{}) (chunk.Seq, error) {
	seq, err := l.publisher.Publish(ctx, jsclient.Outgoing{Number: m.number, Header: m.header, Data: m.data}, abandon)
	if errors.Is(err, nats.ErrNoResponders) {
		if refused := errors.Join(l.writer.Refused(ctx, err), l.retarget()); refused != nil {
			return 0, refused
		}
		t := l.target.Load()
		l.publisher.Retarget(t.Stream, t.Publish)
	}
	return chunk.Seq(seq), err
}

func (l *natsLog) last(ctx context.Context) (message, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	t := l.target.Load()
	return asMessage(l.client.Last(ctx, t.Stream, t.Subject))
}

func (l *natsLog) next(ctx context.Context, after chunk.Seq) (message, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	t := l.target.Load()
	return asMessage(l.client.Next(ctx, t.Stream, t.Subject, uint64(after)+1))
}

func asMessage(m jsclient.Message, err error) (message, error) {
	return message{seq: chunk.Seq(m.Seq), stored: m.Stored, header: m.Header, data: m.Data}, err
}

func (l *natsLog) remove(ctx context.Context, seq chunk.Seq) error {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	if err := l.client.Delete(ctx, l.target.Load().Stream, uint64(seq)); !errors.Is(err, jsclient.ErrNotFound) {
		return err
	}
	return nil
}

func (l *natsLog) writeFailed(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	t := l.target.Load()
	return l.client.WriteFailed(ctx, t.Stream, t.Subject)
}
