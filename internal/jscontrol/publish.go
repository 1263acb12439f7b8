package jscontrol

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/subjects"
)

// Publish puts c on the queue, in addition to other commands. Nil means that it is stored. A repetition changes nothing: the server identifies the command by
// tenant, session, run and kind within its duplicate window, and after that the worker finds the run in the log.
//
// The commands of a session are handled one after the other, in no promised order. Request allows one at a time.
//
// Errors wrap chunk.ErrInvalid (a field is wrong), chunk.ErrTooLarge or control.ErrTooManyRuns, see QueueConfig.MaxRuns, with nothing sent; chunk.ErrNotStored; or chunk.ErrUnknownOutcome, when the server did
// not respond within RetryTimeout or the context.
func (q *Queue) Publish(ctx context.Context, c control.Command) error {
	ctx, c, end := q.traced(ctx, c)
	err := q.publish(ctx, c)
	end(err)
	return err
}

func (q *Queue) publish(ctx context.Context, c control.Command) error {
	c, msg, err := q.message(c)
	if err != nil {
		return err
	}
	if err := q.admit(ctx, c, msg.Subject); err != nil {
		return fmt.Errorf("publish command %s: %w", c.ID(), err)
	}
	_, err = q.api.Put(ctx, jsclient.Put{Msg: msg, Stream: names.Layout(q.cfg.Layout).CommandStream(), RetryTimeout: q.cfg.RetryTimeout})
	if err != nil {
		return fmt.Errorf("publish command %s: %w", c.ID(), err)
	}
	return nil
}

// message validates c and returns its message.
func (q *Queue) message(c control.Command) (control.Command, *nats.Msg, error) {
	if c.Issued.IsZero() {
		c.Issued = time.Now()
	}
	if c.Kind == control.Expire {
		return c, nil, fmt.Errorf("command: %q is sent by PublishAt: %w", control.Expire, chunk.ErrInvalid)
	}
	if err := c.Validate(); err != nil {
		return c, nil, fmt.Errorf("command: %w", err)
	}
	msg, err := encode(q.cfg.Layout, c)
	if err != nil {
		return c, nil, fmt.Errorf("command: %w", err)
	}
	return c, msg, nil
}

// encode returns the message of a valid command.
func encode(l subjects.Layout, c control.Command) (*nats.Msg, error) {
	subject, err := names.Layout(l).Command(c.Session.Tenant, c.AgentType, c.Session.ID)
	if err != nil {
		return nil, err
	}
	return encodeTo(subject, c)
}

func encodeTo(subject string, c control.Command) (*nats.Msg, error) {
	data, err := c.Encode()
	if err != nil {
		return nil, err
	}
	header := nats.Header(c.Header())
	header[jetstream.MsgIDHeader] = []string{c.ID()}
	codec.Encoded{Header: header}.SetTraceParent(c.TraceParent) // it is not part of the request, and so not in the body
	return &nats.Msg{Subject: subject, Data: data, Header: header}, nil
}
