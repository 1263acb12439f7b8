package jscontrol

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/wait"
	"github.com/tailrace/tailrace/subjects"
)

// Handler carries out a command. It may be called again for the same command, in this process or another, one after the other or (when this process was
// assumed to have failed) at the same time.
//
// Nil, or a control.AfterAck, means done. chunk.ErrFenced means that another worker has the session, and keeps the command. Any other error causes a redelivery
// after a delay, which control.RetryAfter can choose. When ctx ends, the handler leaves its work as it is and returns; the command is delivered to another
// worker at once.
type Handler func(ctx context.Context, c control.Command) error

const (
	requestTimeout = 2 * time.Second // for one request to the server

	pullWait      = 10 * time.Second // one pull request; the next follows
	pullHeartbeat = time.Second      // two missing heartbeats: the server was restarted and forgot the request
	ackTimeout    = 5 * time.Second  // for the acknowledgement of a command, also after ctx has ended

	// nakDelay is the delay of a command that a stopping worker returns. Without it:
	//  1. Serve stops fetching; the library cancels the waiting pull request later,
	//  2. the server gets the nak first and delivers the command to that request,
	//  3. the delivery is lost, and the command waits for all of AckWait.
	nakDelay = 100 * time.Millisecond
)

// Serve passes the commands of the agent types to handle until ctx ends; that is not an error. It retries while the server is unavailable or the stream does not
// exist yet. It returns when every handler has returned and its result was sent to the queue. It fails at once on an invalid agent type, and when the
// connection is closed permanently.
func (q *Queue) Serve(ctx context.Context, agentTypes []string, handle Handler) error {
	for _, agentType := range agentTypes {
		if err := subjects.CheckToken("agent type", agentType); err != nil {
			return fmt.Errorf("serve: %w", err)
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &server{Queue: q, handle: handle, running: map[commandKey]*inProgress{}}
	var pulling sync.WaitGroup
	for _, agentType := range agentTypes {
		for _, source := range s.sources(agentType) {
			pulling.Go(func() {
				if err := s.serve(ctx, source); err != nil {
					cancel(err)
				}
			})
		}
	}
	pulling.Wait()
	s.handling.Wait()
	s.flush(ctx)
	if err := context.Cause(ctx); errors.Is(err, nats.ErrConnectionClosed) {
		return fmt.Errorf("serve commands: %w", err)
	}
	return nil
}

// server is one call of Serve.
type server struct {
	*Queue

	handle   Handler
	handling sync.WaitGroup

	mu      sync.Mutex // guards running
	running map[commandKey]*inProgress
}

// source is one consumer: a kind of work for one agent type.
type source struct {
	agentType string
	stream    string
	filter    func(agentType string) (string, error)
	decode    func(l subjects.Layout, subject string, data []byte) (control.Command, error)
	tenant    func(l subjects.Layout, subject string) string // empty for a malformed subject
}

func (s *server) sources(agentType string) []source {
	l := s.cfg.Layout
	return []source{
		{agentType, names.Layout(l).CommandStream(), names.Layout(l).CommandFilter, control.DecodeCommand, commandTenant},
		{agentType, names.Layout(l).DeadlineStream(), names.Layout(l).DueFilter, control.DecodeDeadline, deadlineTenant},
	}
}

func commandTenant(l subjects.Layout, subject string) string {
	tenant, _, _, _ := names.Layout(l).ParseCommand(subject) //nolint:dogsled // decode reports the error
	return tenant
}

func deadlineTenant(l subjects.Layout, subject string) string {
	d, _ := names.Layout(l).ParseDue(subject) // decode reports the error
	return d.Tenant
}

var pullBackoff = wait.Backoff{First: 50 * time.Millisecond, Max: time.Second}

// serve pulls until ctx ends (nil) or the connection is closed (an error).
func (s *server) serve(ctx context.Context, from source) error {
	in := s.newIntake(from)
	defer in.stop(ctx)
	failures := 0
	for ctx.Err() == nil {
		started := time.Now()
		err := in.pull(ctx)
		if errors.Is(err, nats.ErrConnectionClosed) {
			return err
		}
		if time.Since(started) > pullBackoff.Max {
			failures = 0
		}
		failures++
		if err != nil && ctx.Err() == nil {
			s.cfg.Log.WarnContext(ctx, "command fetch failed", "stream", from.stream, "agentType", from.agentType, "error", err)
			_ = wait.Sleep(ctx, pullBackoff.Delay(failures))
		}
	}
	return nil
}

// consumer returns the durable consumer that all workers of the agent type share, and the epoch of its stream. It creates the consumer if necessary.
func (s *server) consumer(ctx context.Context, from source) (consumer jetstream.Consumer, epoch string, err error) {
	filter, err := from.filter(from.agentType)
	if err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	stream, err := s.js.Stream(ctx, from.stream)
	if err != nil {
		return nil, "", err
	}
	consumer, err = stream.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
		Durable:       Durable(from.agentType),
		FilterSubject: filter,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       s.cfg.AckWait,
		MaxDeliver:    -1,
		MaxAckPending: -1, // limited by the slots of the workers
	})
	epoch = jsclient.EpochOf(stream.CachedInfo())
	return consumer, epoch, err
}

// Durable returns the name of the consumer that the workers of an agent type share.
func Durable(agentType string) string { return "agent-" + agentType }

// next returns the next command, or nil if none arrived within pullWait.
func next(ctx context.Context, consumer jetstream.Consumer) (jetstream.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, pullWait)
	defer cancel()
	msg, err := consumer.Next(jetstream.FetchContext(ctx), jetstream.FetchHeartbeat(pullHeartbeat))
	switch {
	case err == nil:
		return msg, nil
	case errors.Is(err, nats.ErrTimeout), errors.Is(err, jetstream.ErrNoMessages), errors.Is(err, context.DeadlineExceeded):
		return nil, nil //nolint:nilnil // an empty queue is the normal case, and says nothing
	}
	return nil, err
}

// handleMsg decodes a message and handles its command.
func (s *server) handleMsg(ctx context.Context, from source, msg delivery) {
	c, err := from.decode(s.cfg.Layout, msg.Subject(), msg.Data())
	if jsclient.IsCopy(msg.Headers(), 0) {
		err = fmt.Errorf("%w: it is a copy of a message on another subject", control.ErrMalformed)
	}
	log := s.cfg.Log.With("subject", msg.Subject())
	switch {
	case errors.Is(err, control.ErrUnsupported):
		log.WarnContext(ctx, "unsupported command left for a newer worker", "error", err)
		s.logAckFailure(ctx, "nak", msg.NakWithDelay(maxRetryDelay))
		return
	case err != nil:
		log.ErrorContext(ctx, "malformed command removed", "error", err)
		s.logAckFailure(ctx, "term", msg.TermWithReason(fmt.Sprintf("%.200s", err.Error())))
		return
	}
	c.TraceParent = codec.TraceParentOf(msg.Headers(), nil)
	key := keyOf(c, msg)
	newest, first := s.begin(key, msg)
	if !first {
		return
	}
	err = s.run(ctx, newest, c)
	s.ack(ctx, s.end(key), c, err)
}

// run calls the handler and sends progress messages meanwhile.
func (s *server) run(ctx context.Context, newest *inProgress, c control.Command) error {
	done := make(chan struct{})
	var beating sync.WaitGroup
	beating.Go(func() {
		ticker := time.NewTicker(s.cfg.AckWait / 3)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				s.logAckFailure(ctx, "in progress", newest.Load().InProgress())
			case <-done:
				return
			}
		}
	})
	defer beating.Wait()
	defer close(done)
	return s.handle(ctx, c)
}

// ack acknowledges a delivery, or returns it.
func (s *server) ack(ctx context.Context, msg jetstream.Msg, c control.Command, err error) {
	log := s.cfg.Log.With("session", c.Session.String(), "run", c.RunID)
	done, more := errors.AsType[control.AfterAck](err)
	switch {
	case err == nil || more:
		s.logAckFailure(ctx, "ack", bounded(ctx, msg.DoubleAck))
		if done.Func == nil {
			return
		}
		// Also if the response to the acknowledgement was lost: the server may have removed the command, and then it is not redelivered.
		if err := bounded(ctx, done.Func); err != nil {
			log.WarnContext(ctx, "follow-up of a command failed", "error", err)
		}
	case errors.Is(err, chunk.ErrFenced):
		// No nak. The server does not distinguish the deliveries of a message, so a nak would take the command away from the worker that took it over, a third
		// worker would take it over from that one, and so on.
		log.InfoContext(ctx, "command taken over by another worker", "error", err)
	case ctx.Err() != nil:
		log.InfoContext(ctx, "command returned by a stopping worker")
		s.logAckFailure(ctx, "nak", msg.NakWithDelay(nakDelay))
	default:
		delay := s.cfg.retryDelay(err, deliveries(msg))
		log.WarnContext(ctx, "command failed", "delay", delay, "error", err)
		s.logAckFailure(ctx, "nak", msg.NakWithDelay(delay))
	}
}

// bounded calls do with ackTimeout, also after ctx has ended.
func bounded(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ackTimeout)
	defer cancel()
	return do(ctx)
}

// retryDelay returns the delay of the redelivery of a command whose handler failed with err in the n-th delivery.
func (c QueueConfig) retryDelay(err error, n uint64) time.Duration {
	if delay, ok := control.RetryDelay(err); ok {
		return delay
	}
	delay := c.RetryDelay
	for ; n > 1 && delay < maxRetryDelay; n-- {
		delay *= 2
	}
	return min(delay, maxRetryDelay)
}

// deliveries returns how often the message was delivered, including this time.
func deliveries(msg jetstream.Msg) uint64 {
	meta, err := msg.Metadata()
	if err != nil {
		return 1
	}
	return meta.NumDelivered
}

// logAckFailure logs that the server did not get an acknowledgement. The command is redelivered, which the handler must accept.
func (s *server) logAckFailure(ctx context.Context, op string, err error) {
	if err != nil {
		s.cfg.Log.WarnContext(ctx, "command ack failed", "op", op, "error", err)
	}
}

// flush waits until the server has received the last naks, before the caller closes the connection.
func (s *server) flush(ctx context.Context) {
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), ackTimeout)
	defer cancel()
	if err := s.js.Conn().FlushWithContext(last); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		s.logAckFailure(ctx, "flush", err)
	}
}
