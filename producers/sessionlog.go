package producers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// sessionLog is what a Run needs from the layer below: the log of one session.
// natsLog is the real one; the tests of the pump have one in memory. Reads are
// answered by the stream's leader, because a follower may lag behind what was
// acknowledged.
//
// A Run makes one call of publish at a time. The others may overlap with it.
type sessionLog interface {
	// publish sends m once and waits for the answer: the sequence, or an error
	// that classify understands. When left is closed, because who waits for the
	// answer has left, it returns errLeft, and the next call goes on waiting for
	// the same answer. left may be nil.
	publish(ctx context.Context, m outgoing, left <-chan struct{}) (chunk.Seq, error)

	// last is the session's last message, errNoMessage if there is none.
	last(ctx context.Context) (message, error)

	// next is the session's first message after a sequence, or errNoMessage.
	next(ctx context.Context, after chunk.Seq) (message, error)

	// scan yields the session's messages after a sequence, up to and with
	// through, then at most one error.
	scan(ctx context.Context, r scanRange) iter.Seq2[message, error]

	// remove deletes one message. One that is gone already is no error.
	remove(ctx context.Context, seq chunk.Seq) error

	// room is how many bytes of headers and payload a message may have now.
	room() int

	// close gives back what the log holds on this side.
	close()
}

// scanRange is a piece of a session's log.
type scanRange struct {
	after, through chunk.Seq // after is exclusive, through is the last one
	headersOnly    bool
}

// outgoing is a message on its way: the same bytes and the same guard, however
// often it is sent.
type outgoing struct {
	number uint64    // counts the messages of this writer, so that late answers find theirs
	after  chunk.Seq // the session's last sequence, by which the server guards it
	header map[string][]string
	data   []byte
}

// message is what the log holds.
type message struct {
	seq    chunk.Seq
	stored time.Time
	header map[string][]string
	data   []byte
}

const (
	headerID     = "ce-id"
	headerType   = "ce-type"
	headerWriter = "ce-writer" // of run_started only, see writeStart
	headerGuard  = "Nats-Expected-Last-Subject-Sequence"
)

func headerOf(h map[string][]string, name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// is reports whether the log's message is the one we sent. The id alone would
// not do: two writers that start at once both call themselves epoch N, and only
// the bytes, or for equal bytes the nonce, tell whose run_started it is.
func (o outgoing) is(m message) bool {
	return headerOf(o.header, headerID) == headerOf(m.header, headerID) &&
		headerOf(o.header, headerWriter) == headerOf(m.header, headerWriter) &&
		bytes.Equal(o.data, m.data)
}

// What a log answers besides success.
var (
	errNoMessage    = errors.New("no such message")
	errNotConnected = errors.New("no connection to the server")       // nothing was sent
	errNobody       = errors.New("no stream takes the subject")       // the server has nobody to give it to
	errTimeout      = errors.New("no answer in time")                 // it may be stored
	errLeft         = errors.New("nobody waits for the answer")       // it is still under way
	errDisconnected = errors.New("the connection broke")              // while the answer was awaited
	errBadAnswer    = errors.New("the answer makes no sense")         // it may be stored
	errPermission   = errors.New("no permission for the subject")     // the server said so
	errConnClosed   = errors.New("the connection is closed for good") // by its owner, or the server's verdict
)

// apiError is a refusal in the words of JetStream.
type apiError struct {
	Code    int    `json:"code"`
	ErrCode int    `json:"err_code"`
	Text    string `json:"description"`
}

func (e *apiError) Error() string { return fmt.Sprintf("%s (%d)", e.Text, e.ErrCode) }

// Error codes of JetStream that decide what happens next.
const (
	codeNoMessage        = 10037
	codeSequenceNotFound = 10043
	codeDeleteFailed     = 10057
	codeStreamNotFound   = 10059
	codeWrongLast        = 10071 // a verdict: the session ends elsewhere
	codeBusy             = 10164 // something is being written to the subject right now
	codeNoResources      = 10023
	codeNoStorage        = 10047
	codeStoreFailed      = 10077
	codeTooMany          = 10167
	codeTooLarge         = 10054
	codeHeaderTooLarge   = 10097
	codeSealed           = 10109
	codeWrongStream      = 10060
)

// verdict is what an attempt to publish came to.
type verdict int

const (
	stored   verdict = iota
	waiting          // sent, and the answer is still awaited
	unknown          // may be stored: send the same again, the guard sorts it out
	unsent           // certainly not stored, and worth trying again
	busy             // certainly not stored, and worth trying again at once
	conflict         // the session does not end where we think: look
	refused          // certainly not stored, and never will be
	closed           // not stored, and nothing will be any more
)

func classify(err error) verdict {
	if api, ok := errors.AsType[*apiError](err); ok {
		return classifyCode(api.ErrCode)
	}
	switch {
	case err == nil:
		return stored
	case errors.Is(err, errLeft):
		return waiting
	case errors.Is(err, errNotConnected), errors.Is(err, errNobody):
		return unsent
	case errors.Is(err, errConnClosed), errors.Is(err, errPermission):
		return closed
	case errors.Is(err, chunk.ErrTooLarge), errors.Is(err, chunk.ErrInvalid):
		return refused
	}
	return unknown
}

func classifyCode(code int) verdict {
	switch code {
	case codeWrongLast:
		return conflict
	case codeBusy:
		return busy
	case codeNoResources, codeNoStorage, codeStoreFailed, codeTooMany:
		return unsent
	case codeTooLarge, codeHeaderTooLarge:
		return refused
	case codeSealed, codeWrongStream:
		return closed
	}
	return unknown // 10008, 10163 and whatever comes to be
}
