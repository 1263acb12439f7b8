package commands

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/subjects"
)

// Handler does what a command asks. It may be called for the same command again,
// in this process or another, one after the other or (when this process was
// thought dead) at the same time.
//
// Nil, or a Done, means done. An error that is chunk.ErrFenced means that another
// worker has the session: the command stays with it. Any other error brings the
// command back after a pause, which Later can choose. When ctx ends, the handler
// leaves its work as it is and returns; the command goes to another worker at once.
type Handler func(ctx context.Context, c Command) error

const (
	askLimit     = 2 * time.Second // for one question to the server
	firstBackoff = 50 * time.Millisecond
	lastBackoff  = time.Second

	pullWait      = 10 * time.Second // one pull request; the next follows
	pullHeartbeat = time.Second      // two of them missing: the server was restarted and forgot the request
	settleLimit   = 5 * time.Second  // for the last word about a command, even when ctx has ended

	// handBack is how long a command rests that a stopping worker gives back.
	// Without it:
	//  1. Serve stops to fetch; the library withdraws the waiting pull request
	//     in its own time,
	//  2. the server gets the nak first and hands the command to that request,
	//  3. nobody listens any more, and the command waits for all of AckWait.
	handBack = 100 * time.Millisecond
)

// Serve hands the commands of the agent types to handle until ctx ends; that
// is no error. It goes on by itself when the server is away or the stream is
// not there yet. It returns when every handler has returned and the queue has
// been told about it. It fails at once on a bad agent type, and when the
// connection is closed for good.
func (q *Queue) Serve(ctx context.Context, agentTypes []string, handle Handler) error {
	for _, agentType := range agentTypes {
		if err := subjects.CheckToken("agent type", agentType); err != nil {
			return fmt.Errorf("serve: %w", err)
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &server{Queue: q, handle: handle, held: map[string]*held{}}
	var pulling sync.WaitGroup
	for _, agentType := range agentTypes {
		for _, source := range []source{s.commands(agentType), s.deadlines(agentType)} {
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

	mu   sync.Mutex // guards held
	held map[string]*held
}

// source is where one kind of work for one agent type comes from.
type source struct {
	agentType string
	stream    string
	filter    func() (string, error)
	decode    func(subject string, data []byte) (Command, error)
}

func (s *server) commands(agentType string) source {
	l := s.cfg.Layout
	return source{
		agentType: agentType, stream: l.CommandStream(),
		filter: func() (string, error) { return l.CommandFilter(agentType) },
		decode: func(subject string, data []byte) (Command, error) { return decode(l, subject, data) },
	}
}

func (s *server) deadlines(agentType string) source {
	l := s.cfg.Layout
	return source{
		agentType: agentType, stream: l.DeadlineStream(),
		filter: func() (string, error) { return l.DueFilter(agentType) },
		decode: func(subject string, data []byte) (Command, error) { return decodeDue(l, subject, data) },
	}
}

// serve pulls until ctx ends (nil) or the connection is closed (an error).
func (s *server) serve(ctx context.Context, from source) error {
	slots := make(chan struct{}, s.cfg.Concurrency)
	backoff := firstBackoff
	for ctx.Err() == nil {
		started := time.Now()
		err := s.pull(ctx, from, slots)
		if errors.Is(err, nats.ErrConnectionClosed) {
			return err
		}
		if time.Since(started) > lastBackoff {
			backoff = firstBackoff
		}
		if err != nil && ctx.Err() == nil {
			s.cfg.Log.WarnContext(ctx, "commands cannot be fetched; trying again", "stream", from.stream, "agentType", from.agentType, "error", err)
			pause(ctx, backoff)
		}
		backoff = min(2*backoff, lastBackoff)
	}
	return nil
}

// pull fetches one command whenever there is a slot to handle it, so that none
// waits in this process while another has nothing to do.
func (s *server) pull(ctx context.Context, from source, slots chan struct{}) error {
	consumer, err := s.consumer(ctx, from)
	if err != nil {
		return err
	}
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		msg, err := next(ctx, consumer)
		if err != nil || msg == nil {
			<-slots
			if err != nil {
				return err
			}
			continue
		}
		s.handling.Go(func() {
			defer func() { <-slots }()
			s.take(ctx, from, msg)
		})
	}
}

// consumer finds or makes the one durable consumer that all workers of the
// agent type share.
func (s *server) consumer(ctx context.Context, from source) (jetstream.Consumer, error) {
	filter, err := from.filter()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	return s.js.CreateOrUpdateConsumer(ctx, from.stream, jetstream.ConsumerConfig{
		Durable:       "agent-" + from.agentType,
		FilterSubject: filter,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       s.cfg.AckWait,
		MaxDeliver:    -1,
		MaxAckPending: -1, // bounded by the workers' slots
	})
}

// next is the next command, or nil when none came within pullWait.
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

// take reads a message and handles its command.
func (s *server) take(ctx context.Context, from source, msg jetstream.Msg) {
	c, err := from.decode(msg.Subject(), msg.Data())
	log := s.cfg.Log.With("subject", msg.Subject())
	switch {
	case errors.Is(err, ErrUnsupported):
		log.WarnContext(ctx, "a command is left to a newer worker", "error", err)
		s.tell(ctx, "nak", msg.NakWithDelay(maxRetryDelay))
		return
	case err != nil:
		log.ErrorContext(ctx, "a command is refused for good", "error", err)
		s.tell(ctx, "term", msg.TermWithReason(clip(err.Error())))
		return
	}
	h, mine := s.hold(c.id(), msg)
	if !mine {
		return
	}
	err = s.run(ctx, h, c)
	s.settle(ctx, s.release(c.id()), c, err)
}

// run calls the handler and shows signs of life meanwhile.
func (s *server) run(ctx context.Context, h *held, c Command) error {
	done := make(chan struct{})
	var beating sync.WaitGroup
	beating.Go(func() {
		ticker := time.NewTicker(s.cfg.AckWait / 3)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				s.tell(ctx, "in progress", h.newest().InProgress())
			case <-done:
				return
			}
		}
	})
	defer beating.Wait()
	defer close(done)
	return s.handle(ctx, c)
}

// settle says the last word about a delivery.
func (s *server) settle(ctx context.Context, msg jetstream.Msg, c Command, err error) {
	log := s.cfg.Log.With("session", c.Session.String(), "run", c.RunID)
	done, more := errors.AsType[Done](err)
	switch {
	case err == nil || more:
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleLimit)
		defer cancel()
		err := msg.DoubleAck(last)
		s.tell(ctx, "ack", err)
		if err != nil || done.After == nil {
			return
		}
		if err := done.After(last); err != nil {
			log.WarnContext(ctx, "a command is done, and what was to follow failed", "error", err)
		}
	case errors.Is(err, chunk.ErrFenced):
		// No nak. The server does not tell one delivery of a message from the
		// next, so that a nak of ours would take the command away from the
		// worker that overtook us, a third would overtake that one, and so on.
		log.InfoContext(ctx, "another worker has the command", "error", err)
	case ctx.Err() != nil:
		log.InfoContext(ctx, "the worker stops; the command goes to another one")
		s.tell(ctx, "nak", msg.NakWithDelay(handBack))
	default:
		delay := s.cfg.rest(err, deliveries(msg))
		log.WarnContext(ctx, "a command failed and will be tried again", "in", delay, "error", err)
		s.tell(ctx, "nak", msg.NakWithDelay(delay))
	}
}

// deliveries is how often the message was delivered, this time included.
func deliveries(msg jetstream.Msg) uint64 {
	meta, err := msg.Metadata()
	if err != nil {
		return 1
	}
	return meta.NumDelivered
}

// tell logs that the server could not be told. The command comes again, which
// the handler is ready for.
func (s *server) tell(ctx context.Context, what string, err error) {
	if err != nil {
		s.cfg.Log.WarnContext(ctx, "the queue could not be told; the command will come again", "what", what, "error", err)
	}
}

// flush sees to it that the last naks are out before the caller closes the connection.
func (s *server) flush(ctx context.Context) {
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleLimit)
	defer cancel()
	if err := s.js.Conn().FlushWithContext(last); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		s.tell(ctx, "flush", err)
	}
}

func clip(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return s[:most]
}

// pause waits for d and reports whether ctx is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
