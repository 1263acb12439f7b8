package jssnapshots

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/jsreader"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/wait"
)

// Source is a projector.Source over the stream of one partition. It reads the durable consumer of the projector, which the server serves to one of
// several processes at a time; a record is acknowledged after the snapshot that contains it is saved.
//
// If the process sends no request for TakeoverTimeout, another one gets the partition; if the process ends, another one gets it at once.
// It begins at the ack floor, so it gets the unsaved records of the previous process. The Runner applies a record only if it is the next one, so redeliveries
// have no effect.
//
// A Source survives an unavailable server, a lost connection and a deleted consumer, which it creates again at the ack floor. The position of the
// consumer is only meaningful for one history of the bucket and of the stream. The consumer carries the epochs of both; for another one it is created again at
// the start of the log, so that every session is compared with its snapshot. When either is recreated, Run returns ErrBucketRecreated or ErrStreamRecreated,
// because the Runner still has what it saved and read before; run a new Source with a new Runner.
type Source struct {
	js     jetstream.JetStream
	client *jsclient.Client
	cfg    SourceConfig
	poll   time.Duration // interval

	limit wait.Throttle // of the log lines for malformed messages

	mu     sync.Mutex // guards epoch and pinned
	epoch  string     // of the bucket; "" before the first request
	pinned *jsreader.Pinned
}

var _ projector.Source = (*Source)(nil)

// NewSource returns a Source. It does not call the server. The error names the wrong field of cfg.
func NewSource(js jetstream.JetStream, cfg SourceConfig) (*Source, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Source{js: js, client: jsclient.New(js), cfg: cfg, poll: pollInterval}, nil
}

var (
	// ErrBucketRecreated reports that the bucket is not the one that the Runner has saved to.
	ErrBucketRecreated = errors.New("bucket of snapshots recreated")

	// ErrStreamRecreated reports that the stream is not the one that the Runner has read, or was rolled back.
	ErrStreamRecreated = errors.New("stream of the log recreated or rolled back")
)

const (
	// bucketKey is the metadata of the consumer with the name of the bucket to which its acknowledgements belong.
	bucketKey = "tailrace.bucket"

	// epochsKey is the metadata of the consumer with the epochs of its stream and of the bucket, with a dot between them. A backup of the stream has the
	// consumer, with what was acknowledged then; the snapshots may be those of another moment.
	epochsKey = "tailrace.epochs"

	// maxReportAttempts is how often a malformed message is delivered if OnMalformed fails.
	maxReportAttempts = 5
)

var sourceBackoff = wait.Backoff{First: 50 * time.Millisecond, Max: 5 * time.Second}

// Run implements projector.Source. It returns when ctx ends, when take fails, or with jsreader.ErrConfigMismatch, ErrBucketRecreated or
// ErrStreamRecreated. It is called once.
func (s *Source) Run(ctx context.Context, take func(context.Context, []projector.Delivery) error) error {
	running, stop := context.WithCancelCause(ctx)
	queue := make(chan jsreader.Entry, s.cfg.Batch)
	var work sync.WaitGroup
	work.Go(func() { s.watch(running, stop) })
	work.Go(func() { s.handOver(running, queue, take, stop) })
	stop(s.read(running, queue))
	work.Wait()
	return context.Cause(running)
}

// Release implements projector.Source. Without it another Source gets the partition after TakeoverTimeout.
func (s *Source) Release(ctx context.Context) {
	if p := s.reader(); p != nil {
		p.Release(ctx)
	}
}

// read puts the deliveries into the queue, across all interruptions. The queue lets the server deliver while the Runner is busy.
func (s *Source) read(ctx context.Context, queue chan<- jsreader.Entry) error {
	enqueue := func(ctx context.Context, entries []jsreader.Entry) error {
		for _, e := range entries {
			select {
			case queue <- e:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	}
	for failures := 1; ; failures++ {
		started := time.Now()
		pinned, err := s.open(ctx)
		if err == nil {
			err = pinned.Run(ctx, enqueue)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, jsreader.ErrRecreated):
			s.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "log stream deleted, recreated or rolled back", slog.String("stream", s.stream()))
			return ErrStreamRecreated
		case errors.Is(err, jsreader.ErrConfigMismatch), errors.Is(err, ErrBucketRecreated):
			return err
		}
		if time.Since(started) > time.Minute {
			failures = 1
		}
		s.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "projector source interrupted", slog.String("stream", s.stream()), slog.Any("reason", err))
		if err := wait.Sleep(ctx, sourceBackoff.Delay(failures)); err != nil {
			return err
		}
	}
}

func (s *Source) stream() string { return s.cfg.Layout.Stream(s.cfg.Partition) }

// open returns the reader of the consumer, when the bucket and the stream are known.
func (s *Source) open(ctx context.Context) (*jsreader.Pinned, error) {
	if pinned := s.reader(); pinned != nil {
		return pinned, nil
	}
	if err := s.checkBucket(ctx); err != nil {
		return nil, err
	}
	log, err := s.client.State(ctx, s.stream(), "")
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", s.stream(), err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pinned == nil {
		s.pinned = jsreader.NewPinned(s.client, jsreader.PinnedConfig{
			Stream: s.stream(), Epoch: log.Epoch, Name: s.cfg.Name, Description: "tailrace projector", Filter: names.Layout(s.cfg.Layout).AllFilter(s.cfg.Partition),
			Metadata: map[string]string{bucketKey: s.bucket(), epochsKey: log.Epoch + "." + s.epoch}, Ahead: maxAckPending, Batch: s.cfg.Batch, Request: 2 * s.cfg.Batch,
			AckWait: s.cfg.AckWait, TakeoverTimeout: s.cfg.TakeoverTimeout, Attach: s.checkBucket,
			Heartbeat: s.cfg.TakeoverTimeout / 6, Log: s.cfg.Log,
		})
	}
	return s.pinned, nil
}

// reader returns what open has returned, nil before that.
func (s *Source) reader() *jsreader.Pinned {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pinned
}

// handOver passes the queue to take in batches of all queued records, without waiting for a full batch.
func (s *Source) handOver(ctx context.Context, queue <-chan jsreader.Entry, take func(context.Context, []projector.Delivery) error, stop context.CancelCauseFunc) {
	entries := make([]jsreader.Entry, 0, s.cfg.Batch)
	for {
		select {
		case e := <-queue:
			entries = append(entries[:0], e)
		case <-ctx.Done():
			return
		}
		for more := true; more && len(entries) < s.cfg.Batch; {
			select {
			case e := <-queue:
				entries = append(entries, e)
			default:
				more = false
			}
		}
		if err := s.deliver(ctx, entries, take); err != nil {
			stop(err)
			return
		}
		clear(entries)
	}
}

// acker acknowledges one delivery.
type acker struct {
	pinned  *jsreader.Pinned
	receipt jsreader.Receipt
}

// Ack implements projector.Acker.
func (a *acker) Ack() error { return a.pinned.Ack(a.receipt) }

// deliver passes the records of a batch to take.
func (s *Source) deliver(ctx context.Context, entries []jsreader.Entry, take func(context.Context, []projector.Delivery) error) error {
	pinned := s.reader()
	deliveries := make([]projector.Delivery, 0, len(entries))
	ackers := make([]acker, len(entries))
	for i := range entries {
		e := &entries[i]
		if s.cfg.Observe != nil && e.Deliveries > 1 {
			s.cfg.Observe.Redelivered()
		}
		ackers[i] = acker{pinned, e.Receipt()}
		rec, err := s.record(e)
		if err == nil {
			d := projector.Delivery{Record: rec, Acker: &ackers[i]}
			if rec.Type.Control() {
				d.TraceParent = codec.TraceParentOf(e.Header, e.Data)
			}
			deliveries = append(deliveries, d)
			continue
		}
		s.skipMalformed(ctx, e, &ackers[i], err)
	}
	if len(deliveries) == 0 {
		return nil
	}
	return take(ctx, deliveries)
}

// skipMalformed reports a malformed message and acknowledges it.
func (s *Source) skipMalformed(ctx context.Context, e *jsreader.Entry, a *acker, cause error) {
	f := Malformed{Partition: s.cfg.Partition, Subject: e.Subject, Seq: chunk.Seq(e.Seq), Stored: e.Stored, Err: cause}
	attrs := []slog.Attr{slog.String("subject", f.Subject), slog.Uint64("sequence", e.Seq), slog.Any("error", cause)}
	if s.cfg.OnMalformed != nil {
		err := s.cfg.OnMalformed(ctx, f)
		if err != nil {
			s.cfg.Log.LogAttrs(ctx, slog.LevelError, "malformed message not reported", append(attrs, slog.Any("cause", err))...)
		}
		if err != nil && e.Deliveries < maxReportAttempts {
			return // the server delivers it once more
		}
	}
	if more, ok := s.limit.Allow(); ok {
		s.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "malformed message skipped", append(attrs, slog.Int64("notLogged", more))...)
	}
	if err := a.Ack(); err != nil {
		s.cfg.Log.Debug("malformed message not acknowledged", slog.Uint64("sequence", e.Seq), slog.Any("error", err))
	}
}

func (s *Source) record(e *jsreader.Entry) (chunk.Record, error) {
	id, err := s.cfg.Layout.Parse(e.Subject)
	if err != nil {
		return chunk.Record{}, err
	}
	return codec.Decode(codec.Stored{Session: id, Seq: chunk.Seq(e.Seq), At: e.Stored, Header: e.Header, Data: e.Data})
}
