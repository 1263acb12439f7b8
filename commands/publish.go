package commands

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsapi"
)

// Publish puts c on the queue, whatever is there. Nil means that it is stored.
// Repeating it, after an error or by a second click, changes nothing: the server
// knows the command by tenant, session, run and kind, and the worker finds the
// run in the log when the server has forgotten.
//
// A session with several commands has its turns one after the other, in no
// promised order. Request is for those who want one at a time.
//
// Errors wrap chunk.ErrInvalid (a field is wrong) or chunk.ErrTooLarge, with
// nothing sent; chunk.ErrNotStored; or chunk.ErrUnknownOutcome, when the server
// did not answer within Patience or the context.
func (q *Queue) Publish(ctx context.Context, c Command) error {
	c, msg, err := q.message(c)
	if err != nil {
		return err
	}
	_, err = q.api.Put(ctx, jsapi.Put{Msg: msg, Stream: q.cfg.Layout.CommandStream(), Patience: q.cfg.Patience})
	if err != nil {
		return fmt.Errorf("publish command %s: %w", c.id(), err)
	}
	return nil
}

// message checks c and turns it into its message.
func (q *Queue) message(c Command) (Command, *nats.Msg, error) {
	if c.Issued.IsZero() {
		c.Issued = time.Now()
	}
	if c.Kind == Expire {
		return c, nil, fmt.Errorf("command: %q is sent by PublishAt: %w", Expire, chunk.ErrInvalid)
	}
	if err := c.validate(); err != nil {
		return c, nil, fmt.Errorf("command: %w", err)
	}
	msg, err := encode(q.cfg.Layout, c)
	if err != nil {
		return c, nil, fmt.Errorf("command: %w", err)
	}
	return c, msg, nil
}
