package producers

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/jsvalues"
	"github.com/tailrace/tailrace/internal/values"
)

// natsLog is the log of one session in JetStream.
type natsLog struct {
	client    *jsclient.Client
	publisher *jsclient.SubjectPublisher
	values    *jsvalues.Store
	session   chunk.Session
	subject   string
	stream    string
	timeout   time.Duration // of one attempt or request
	slog      *slog.Logger
}

func (p *Producer) newNATSLog(s chunk.Session) (*natsLog, error) {
	layout := p.cfg.Layout
	subject, err := layout.Subject(s)
	if err != nil {
		return nil, err
	}
	stream := layout.Stream(layout.Partition(s))
	return &natsLog{
		client: p.client, publisher: p.publisher.Open(stream, subject), values: jsvalues.New(p.client, layout), session: s,
		subject: subject, stream: stream, timeout: p.cfg.AttemptTimeout, slog: p.cfg.Log,
	}, nil
}

func (l *natsLog) close() { l.publisher.Close() }

func (l *natsLog) maxMessageSize() int {
	if n := l.client.JetStream().Conn().MaxPayload(); n > 0 {
		return int(n)
	}
	return 1 << 20 // not connected yet: the default of the server
}

func (l *natsLog) putValue(ctx context.Context, k values.Key, mediaType string, data []byte) error {
	return l.values.Put(ctx, l.session, k, mediaType, data)
}

func (l *natsLog) publish(ctx context.Context, m outgoing, abandon <-chan struct{}) (chunk.Seq, error) {
	seq, err := l.publisher.Publish(ctx, m.number, m.messages, abandon)
	return chunk.Seq(seq), err
}

func (l *natsLog) storesBatches(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	return l.publisher.StoresBatches(ctx, l.client)
}

func (l *natsLog) last(ctx context.Context) (message, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	return asMessage(l.client.Last(ctx, l.stream, l.subject))
}

func (l *natsLog) next(ctx context.Context, after chunk.Seq) (message, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	return asMessage(l.client.Next(ctx, l.stream, l.subject, uint64(after)+1))
}

func asMessage(m jsclient.Message, err error) (message, error) {
	return message{seq: chunk.Seq(m.Seq), stored: m.Stored, header: m.Header, data: m.Data}, err
}

func (l *natsLog) remove(ctx context.Context, seq chunk.Seq) error {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	if err := l.client.Delete(ctx, l.stream, uint64(seq)); !errors.Is(err, jsclient.ErrNotFound) {
		return err
	}
	return nil
}

func (l *natsLog) writeFailed(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	return l.client.WriteFailed(ctx, l.stream, l.subject)
}
