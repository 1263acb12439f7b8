package jsclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// maxBatchBytes bounds a response of LastOfEach. The server sends it without flow control, and closes a connection with more than 64 MiB of pending
// data: several responses and all other traffic must fit in there.
const maxBatchBytes = 1 << 20

// ErrTooManySubjects reports more subjects than the server accepts in one request, 1024.
var ErrTooManySubjects = errors.New("more than 1024 subjects")

// noResults is the description of a response for subjects without messages, as getDirectMulti of nats-server 2.15 has it.
const noResults = "No Results"

// LastOfEach calls got with the last message of each subject, in the order of the stream, as some replica has them. The server refuses more than 1024
// subjects. LastOfEach returns the last sequence of that replica, or 0 if the replica has none of the messages. A subject without a message is left out.
// A subject is also left out when the response becomes too long: while got was called for at least one subject, call LastOfEach again for the rest.
func (c *Client) LastOfEach(ctx context.Context, stream string, subjects []string, got func(Message)) (upTo uint64, err error) {
	upTo, _, err = c.LastOfEachFrom(ctx, stream, subjects, 0, got)
	return upTo, err
}

// LastOfEachFrom is LastOfEach without the messages before a sequence; subjects may have wildcards. more reports that messages were left out because the
// response became too long: those after the last one. The error wraps ErrTooManySubjects if the wildcards match too many.
func (c *Client) LastOfEachFrom(ctx context.Context, stream string, subjects []string, from uint64, got func(Message)) (upTo uint64, more bool, err error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	data, err := json.Marshal(struct {
		MultiLast []string `json:"multi_last"` // an empty list is an error of the server
		MaxBytes  int      `json:"max_bytes"`
		Seq       uint64   `json:"seq,omitempty"`
	}{subjects, maxBatchBytes, from})
	if err != nil {
		return 0, false, err
	}
	inbox := c.nc.NewInbox()
	responses, err := c.nc.SubscribeSync(inbox)
	if err != nil {
		return 0, false, err
	}
	defer func() { _ = responses.Unsubscribe() }()             // fails if the connection is closed, which ends the subscription too
	if err := responses.SetPendingLimits(-1, -1); err != nil { // maxBatchBytes is the limit
		return 0, false, err
	}
	subject := "DIRECT.GET." + stream
	before := c.nc.LastError()
	if err := c.nc.PublishRequest(c.prefix+subject, inbox, data); err != nil {
		return 0, false, fmt.Errorf("%s: %w", subject, err)
	}
	for {
		resp, err := responses.NextMsgWithContext(ctx)
		if err != nil {
			return 0, false, fmt.Errorf("%s: %w", subject, denial(c.nc, c.prefix+subject, before, err))
		}
		switch status := resp.Header.Get("Status"); {
		case len(resp.Header[jetstream.SequenceHeader]) > 0: // a message
		case status == statusNotFound:
			if resp.Header.Get("Description") == noResults {
				return 0, false, nil
			}
			return 0, false, fmt.Errorf("%s: %w: a message was deleted while the server read it", subject, ErrBadResponse)
		case status == statusTooMany:
			return 0, false, fmt.Errorf("%s: %w", subject, ErrTooManySubjects)
		}
		m, end, err := directMessage(resp)
		switch {
		case err != nil:
			return 0, false, fmt.Errorf("%s: %w", subject, err)
		case end:
			pending, err := number(resp, "Nats-Num-Pending")
			if err != nil {
				return 0, false, fmt.Errorf("%s: %w", subject, err)
			}
			upTo, err := number(resp, "Nats-UpTo-Sequence")
			return upTo, pending > 0, err
		}
		got(m)
	}
}
