package jsclient

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ErrNotFound reports a message that is not in the stream.
var ErrNotFound error = jetstream.ErrMsgNotFound

// Message is a stored message.
type Message struct {
	Seq     uint64
	Subject string

	// Header holds the headers, nil if there are none or they are malformed. A message from a replica also has the Nats-* headers of the response.
	Header nats.Header

	// Block holds the headers as they are stored, also malformed ones. Only the leader returns it.
	Block []byte

	Data   []byte
	Stored time.Time
}

// query is the body of both kinds of get.
type query struct {
	Seq       uint64   `json:"seq,omitempty"`
	LastFor   string   `json:"last_by_subj,omitempty"`
	NextFor   string   `json:"next_by_subj,omitempty"`
	MultiLast []string `json:"multi_last,omitempty"`
	UpToSeq   uint64   `json:"up_to_seq,omitempty"`
	Batch     int      `json:"batch,omitempty"`
}

// Last returns the last message of a subject or filter, as the leader has it, or ErrNotFound.
func (c *Client) Last(ctx context.Context, stream, subject string) (Message, error) {
	return c.leader(ctx, stream, query{LastFor: subject})
}

// Next returns the first message of a filter with a sequence of at least from, as the leader has it, or ErrNotFound.
func (c *Client) Next(ctx context.Context, stream, filter string, from uint64) (Message, error) {
	return c.leader(ctx, stream, query{Seq: max(from, 1), NextFor: filter})
}

// At returns the message with a sequence, or ErrNotFound. Any replica may return the message; a replica may lag, so only the leader decides that the
// message is missing.
func (c *Client) At(ctx context.Context, stream string, seq uint64) (Message, error) {
	m, err := c.direct(ctx, stream, query{Seq: seq})
	if err == nil || ctx.Err() != nil {
		return m, err
	}
	return c.leader(ctx, stream, query{Seq: seq})
}

// Before returns the last message of a subject with a sequence of at most upTo, or ErrNotFound, also when upTo is after the end of the stream. A replica
// answers; if it lags, the message may be an earlier one or be missing. The leader has no such request.
func (c *Client) Before(ctx context.Context, stream, subject string, upTo uint64) (Message, error) {
	return c.direct(ctx, stream, query{MultiLast: []string{subject}, UpToSeq: upTo, Batch: 1})
}

func (c *Client) leader(ctx context.Context, stream string, q query) (Message, error) {
	subject := "STREAM.MSG.GET." + stream
	var response struct {
		failure

		Message *struct {
			Seq     uint64    `json:"seq"`
			Subject string    `json:"subject"`
			Header  []byte    `json:"hdrs"`
			Data    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
	}
	err := c.request(ctx, subject, q, &response)
	switch {
	case errors.Is(err, ErrNotFound):
		return Message{}, ErrNotFound
	case err != nil:
		return Message{}, err
	case response.Message == nil:
		return Message{}, fmt.Errorf("%s: %w: no message", subject, ErrBadResponse)
	}
	m := Message{
		Seq: response.Message.Seq, Subject: response.Message.Subject, Block: response.Message.Header,
		Data: response.Message.Data, Stored: response.Message.Time,
	}
	if len(m.Block) > 0 {
		if m.Header, err = nats.DecodeHeadersMsg(m.Block); err != nil {
			m.Header = nil // malformed, so the message is not one of this project
		}
	}
	return m.WithoutCopy(0), nil
}

func (c *Client) direct(ctx context.Context, stream string, q query) (Message, error) {
	subject := "DIRECT.GET." + stream
	resp, err := c.call(ctx, subject, q)
	if err != nil {
		return Message{}, err
	}
	m, end, err := directMessage(resp)
	switch {
	case err != nil:
		return Message{}, fmt.Errorf("%s: %w", subject, err)
	case end:
		return Message{}, ErrNotFound
	}
	return m, nil
}

// Status codes of a direct get.
const (
	statusEndOfBatch = "204"
	statusNotFound   = "404"
	statusTooMany    = "413"
)

// directMessage reads a response to a direct get. end reports that it is a status message: no message was found, or no further one follows.
func directMessage(resp *nats.Msg) (m Message, end bool, err error) {
	switch status := resp.Header.Get("Status"); {
	case len(resp.Header[jetstream.SequenceHeader]) > 0: // a message, which may have a status of its own
	case status == statusEndOfBatch, status == statusNotFound:
		return Message{}, true, nil
	default:
		return Message{}, false, fmt.Errorf("%w: %s %s", ErrBadResponse, status, resp.Header.Get("Description"))
	}
	m, err = described(resp)
	return m, false, err
}

// Republished returns a message that the server has published again when it was stored, and the sequence of the message before it on its subject, 0 for none.
func Republished(m *nats.Msg) (stored Message, before uint64, err error) {
	if stored, err = described(m); err == nil {
		before, err = number(m, jetstream.LastSequenceHeader)
	}
	return stored, before, err
}

// described returns a message that the server has sent with its sequence, subject and time as headers.
func described(m *nats.Msg) (Message, error) {
	seq, err := number(m, jetstream.SequenceHeader)
	if err != nil {
		return Message{}, err
	}
	stored, err := time.Parse(time.RFC3339Nano, lastValue(m.Header, jetstream.TimeStampHeaer))
	if err != nil {
		return Message{}, fmt.Errorf("%w: %s: %w", ErrBadResponse, jetstream.TimeStampHeaer, err)
	}
	of := Message{Seq: seq, Subject: lastValue(m.Header, jetstream.SubjectHeader), Header: m.Header, Data: m.Data, Stored: stored}
	return of.WithoutCopy(1), nil
}

// number returns a header that the server sets.
func number(m *nats.Msg, name string) (uint64, error) {
	n, err := strconv.ParseUint(lastValue(m.Header, name), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %s: %w", ErrBadResponse, name, err)
	}
	return n, nil
}

// IsCopy reports whether a stored message is a response of the server. A client may name any subject of its account as the reply of a direct get, and so store a
// message of its choice where it may not publish; each such response has its sequence in a header, and no program of this project stores a message with one. added is
// the number of values of the header that came with the delivery: 1 for a direct get or a republished message, 0 for a consumer and the leader.
func IsCopy(h nats.Header, added int) bool { return len(h[jetstream.SequenceHeader]) > added }

// WithoutCopy returns m, without header and data if it is a copy, so that every reader finds it malformed. See IsCopy for added.
func (m Message) WithoutCopy(added int) Message {
	if IsCopy(m.Header, added) {
		m.Header, m.Data = nil, nil
	}
	return m
}

// lastValue returns the value of a header that the server has added, after those that the message may have had.
func lastValue(h nats.Header, name string) string {
	values := h[name]
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}
