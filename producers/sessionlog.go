package producers

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/values"
)

// sessionLog is the log of one session. natsLog implements it; the tests of the pump use an implementation in memory. The leader of the stream answers
// reads, because a follower may lag behind acknowledged writes.
//
// A Run makes one call of publish at a time. Other calls may be concurrent with it.
type sessionLog interface {
	// publish sends m once and waits for the response: the sequence, or an error that classify understands. When abandon is closed, it returns
	// jsclient.ErrWaitAbandoned, and the next call waits for the same response. abandon may be nil.
	// Of several messages it is the sequence of the last one.
	publish(ctx context.Context, m outgoing, abandon <-chan struct{}) (chunk.Seq, error)

	// storesBatches reports whether publish takes several messages. It may ask the server.
	storesBatches(ctx context.Context) bool

	// last returns the last message of the session, or jsclient.ErrNotFound.
	last(ctx context.Context) (message, error)

	// next returns the first message of the session after a sequence, or jsclient.ErrNotFound.
	next(ctx context.Context, after chunk.Seq) (message, error)

	// scan yields the messages of the session in the range, then at most one error.
	scan(ctx context.Context, r scanRange) iter.Seq2[message, error]

	// remove deletes one message. It returns nil if the message is deleted already.
	remove(ctx context.Context, seq chunk.Seq) error

	// writeFailed returns a *jsclient.WriteError if the server cannot write the stream.
	writeFailed(ctx context.Context) error

	// putValue stores a value that is too large for a message, before the record that refers to it.
	putValue(ctx context.Context, k values.Key, mediaType string, data []byte) error

	// maxMessageSize returns the largest size of a message in bytes, headers included, at present.
	maxMessageSize() int

	// close releases the resources of the log on the client.
	close()
}

// scanRange is a range of the log of a session.
type scanRange struct {
	after, through chunk.Seq // after is exclusive, through is inclusive
	headersOnly    bool
}

// outgoing is one message to be stored, or a batch: several messages that the log stores all, with consecutive sequences, or not at all. Every attempt sends the
// same bytes with the same expected sequence.
type outgoing struct {
	number   uint64         // identifies it among those of this writer, for late responses
	after    chunk.Position // of the session: the expected sequence and the ordinal before those of the messages
	messages []*nats.Msg    // with header and data
	bytes    int            // the size of all

	sessionBytes int64 // see chunk.Record, after the last message
}

// message is a message of the log.
type message struct {
	seq    chunk.Seq
	stored time.Time
	header map[string][]string
	data   []byte
}

const (
	headerID          = "ce-id"
	headerType        = "ce-type"
	headerWriter      = "ce-writer" // of run_started only, see writeStart
	headerInput       = "ce-inputposition"
	headerExpectedSeq = "Nats-Expected-Last-Subject-Sequence"
)

func headerOf(h map[string][]string, name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// isStoredAs reports whether m is the message that o was stored as. The id is not sufficient: two writers that start at the same time both use epoch N, and only
// the bytes, or for equal bytes the nonce, identify the run_started of each.
func isStoredAs(o *nats.Msg, m message) bool {
	return headerOf(o.Header, headerID) == headerOf(m.header, headerID) &&
		headerOf(o.Header, headerWriter) == headerOf(m.header, headerWriter) &&
		headerOf(o.Header, headerInput) == headerOf(m.header, headerInput) &&
		bytes.Equal(o.Data, m.data)
}

// pending is the result of an attempt whose response is still awaited.
const pending jsclient.PublishResult = -1

// classify returns the result that the error of one attempt to publish means.
func classify(err error) jsclient.PublishResult {
	if errors.Is(err, jsclient.ErrWaitAbandoned) {
		return pending
	}
	return jsclient.ResultOf(err)
}
