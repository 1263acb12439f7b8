package jsclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
)

// ErrWaitAbandoned reports that the caller has abandoned the wait for the response to a message that is still in flight.
var ErrWaitAbandoned = errors.New("wait for the response abandoned")

// SubjectPublisher publishes to one subject. It makes one attempt at a time; the caller decides on the next one by the PublishResult of the error.
type SubjectPublisher struct {
	publisher *Publisher
	subject   string
	stream    string
	replies   *replyQueue
	timer     *time.Timer // of the attempt in flight
	abandoned attempt     // in flight, and not waited for
}

// Open returns a SubjectPublisher for a subject of a stream. Close releases it.
func (p *Publisher) Open(stream, subject string) *SubjectPublisher {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &SubjectPublisher{publisher: p, subject: subject, stream: stream, replies: p.open(), timer: t}
}

// Close releases the resources of s. Responses that arrive later are ignored.
func (s *SubjectPublisher) Close() { s.publisher.closeReplies(s.replies) }

// attempt is a message that was sent, or a batch.
type attempt struct {
	number        uint64 // that Publish was called with, 0 for none
	count         int    // of messages
	reply         string
	disconnected  <-chan struct{} // closed when the connection that it was sent on breaks
	lastErrBefore error           // the connection's last error when it was sent
}

// Publish sends the messages once and waits for the response: it returns the sequence of the last one, or an error that ResultOf classifies. Several messages are
// an atomic batch: the server stores all of them, with consecutive sequences, or refuses all, and only the first may have an expected sequence. See StoresBatches.
//
// number, from 1, identifies the messages among those of s; every attempt sends the same ones. When abandon is closed, Publish returns ErrWaitAbandoned, and the
// next call with the same number waits for the same response. abandon may be nil. Publish sets the subject and the reply of the messages, and the headers of the batch.
func (s *SubjectPublisher) Publish(ctx context.Context, number uint64, messages []*nats.Msg, abandon <-chan struct{}) (uint64, error) {
	if s.abandoned.number != number {
		if err := s.send(ctx, number, messages, abandon); err != nil {
			return 0, err
		}
	}
	a := s.abandoned
	s.abandoned = attempt{}
	for {
		select {
		case response := <-s.replies.responses:
			// A response to an earlier attempt of this message counts too. A response to an earlier message is too late.
			if response.Subject == a.reply {
				s.timer.Stop()
				return s.read(response, a.count)
			}
		case <-a.disconnected:
			return 0, nats.ErrDisconnected
		case <-s.timer.C:
			return 0, denial(s.publisher.nc, s.subject, a.lastErrBefore, nats.ErrTimeout)
		case <-abandon:
			s.abandoned = a
			return 0, ErrWaitAbandoned
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// send sends the messages and makes them the attempt in flight.
func (s *SubjectPublisher) send(ctx context.Context, number uint64, messages []*nats.Msg, abandon <-chan struct{}) error {
	broken, err := s.publisher.connection(ctx, abandon)
	if err != nil {
		return err
	}
	a := attempt{
		number:        number,
		count:         len(messages),
		reply:         s.publisher.inbox + s.replies.name + "." + strconv.FormatUint(number, 36),
		disconnected:  broken,
		lastErrBefore: s.publisher.nc.LastError(),
	}
	if len(messages) > 1 {
		err = s.sendBatch(messages, a.reply)
	} else {
		messages[0].Subject, messages[0].Reply = s.subject, a.reply
		err = s.publisher.nc.PublishMsg(messages[0])
	}
	if err != nil {
		return err
	}
	s.timer.Reset(s.publisher.timeout)
	s.abandoned = a
	return nil
}

// denial returns the reason for a missing response. A server that denies the permission to publish reports that to the connection, not in a response, and a
// repeated request would wait as long: that is a chunk.ErrNotPermitted. before is the last error of the connection before the request, err that of the request. subject may lack the tokens that a library has added.
func denial(nc *nats.Conn, subject string, before, err error) error {
	now := nc.LastError()
	if errors.Is(now, nats.ErrPermissionViolation) && now != before && (strings.Contains(now.Error(), `"`+subject+`"`) || strings.Contains(now.Error(), `"`+subject+`.`)) { //nolint:errorlint // a new error value is a new event
		return fmt.Errorf("publish to %s: %w: %w", subject, chunk.ErrNotPermitted, nats.ErrPermissionViolation)
	}
	return err
}

// read decodes the response to a publish of a number of messages.
func (s *SubjectPublisher) read(m *nats.Msg, count int) (uint64, error) {
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
		return 0, fmt.Errorf("no stream for subject %s, want %s: %w", s.subject, s.stream, nats.ErrNoResponders)
	}
	if seq, ok := parseAck(m.Data, s.stream); ok && count == 1 {
		return seq, nil
	}
	var a struct {
		Error  *jetstream.APIError `json:"error"`
		Stream string              `json:"stream"`
		Seq    uint64              `json:"seq"`
		Count  int                 `json:"count"` // of a batch
	}
	switch err := json.Unmarshal(m.Data, &a); {
	case err != nil:
		return 0, fmt.Errorf("%w: %.100q", ErrBadResponse, m.Data)
	case a.Error != nil:
		if a.Error.ErrorCode == codeNoBatches {
			s.publisher.batches.Delete(s.stream)
		}
		return 0, a.Error
	case a.Stream != s.stream:
		return 0, &jetstream.APIError{ErrorCode: codeWrongStream, Description: fmt.Sprintf("subject %s belongs to stream %q, want %q", s.subject, a.Stream, s.stream)}
	case a.Seq == 0, count > 1 && a.Count != count:
		return 0, fmt.Errorf("%w: %.100q", ErrBadResponse, m.Data)
	}
	return a.Seq, nil
}

// parseAck decodes {"stream":"NAME","seq":N}, the form of almost all responses.
func parseAck(data []byte, stream string) (uint64, bool) {
	rest, ok := bytes.CutPrefix(data, []byte(`{"stream":"`))
	if !ok || len(rest) < len(stream) || string(rest[:len(stream)]) != stream {
		return 0, false
	}
	if rest, ok = bytes.CutPrefix(rest[len(stream):], []byte(`","seq":`)); !ok {
		return 0, false
	}
	if rest, ok = bytes.CutSuffix(rest, []byte(`}`)); !ok {
		return 0, false
	}
	seq, err := strconv.ParseUint(string(rest), 10, 64)
	return seq, err == nil && seq > 0
}
