package httpagent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/outgoing"
)

// answer is the translated response of an endpoint, from which the steps of a Turn are written. Its methods are called from one goroutine.
type answer struct {
	tr     codec.Translator
	hasEnd bool // the dialect of tr is one in which [DONE] is an event
	events *eventReader
	slot   *largeSlot
	body   io.Closer
	reqCtx context.Context //nolint:containedctx // of the request, whose response spans several steps
	cancel context.CancelCauseFunc
	whole  *outgoing.Timer

	queue []chunk.Chunk
	last  []chunk.Chunk // of [DONE]
	begun bool          // an event was read
	ended bool
	fail  *failure // why the response could not be read to its end, nil if it could
}

func newAnswer(reqCtx context.Context, cancel context.CancelCauseFunc, body io.ReadCloser, lines bool, cfg Config, large largeEvents) *answer {
	limited := &responseReader{in: body, left: cfg.MaxResponseBytes, idle: outgoing.NewTimer(cfg.IdleTimeout, func() { cancel(errIdle) })}
	slot := &largeSlot{of: large, done: reqCtx.Done()}
	a := &answer{
		events: newEventReader(limited, lines, cfg.MaxEventBytes, slot.resize), slot: slot, body: body, reqCtx: reqCtx, cancel: cancel,
		whole: outgoing.NewTimer(cfg.Timeout, func() { cancel(errTimeout) }),
	}
	a.whole.Start()
	return a
}

// close ends the request, and releases its connection.
func (a *answer) close() {
	a.slot.resize(0)
	a.whole.Stop()
	a.cancel(nil)
	_ = a.body.Close() // it was only read
}

// next returns the next chunk. It blocks until the endpoint has sent it, or until ctx ends, and then returns the cause of ctx. io.EOF follows the last chunk,
// which is a stream_end, a stream_paused or a stream_failed.
func (a *answer) next(ctx context.Context) (chunk.Chunk, error) {
	for len(a.queue) == 0 {
		if a.ended {
			return chunk.Chunk{}, io.EOF
		}
		if err := a.read(ctx); err != nil {
			return chunk.Chunk{}, err
		}
	}
	c := a.queue[0]
	a.queue = a.queue[1:]
	return c, nil
}

// unread makes next return c again.
func (a *answer) unread(c chunk.Chunk) { a.queue = append([]chunk.Chunk{c}, a.queue...) }

// read translates the next event, or the end of the body.
func (a *answer) read(ctx context.Context) error {
	data, err := a.events.next()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		a.end(a.readFailure(err))
	case string(data) == "[DONE]": // also if the endpoint keeps the connection open
		if a.hasEnd && a.begun {
			a.last, _ = a.tr.Translate(data) // [DONE] is valid
		}
		a.end(nil)
	default:
		a.begun = true
		a.queue, err = a.tr.Translate(data)
		if err != nil {
			a.end(&failure{code: CodeInvalid, cause: fmt.Errorf("event %.100q: %w", data, err)})
		}
	}
	return nil
}

// end ends the response. A connection that breaks after the end of the answer does not matter.
func (a *answer) end(f *failure) {
	if f == nil && !a.begun {
		f = failuref(CodeInvalid, "the response has no event")
	}
	a.ended, a.fail = true, f
	a.queue = slices.Concat(a.last, a.tr.End())
	a.close()
}

// readFailure returns the failure of a body that could not be read, nil if it has ended.
func (a *answer) readFailure(err error) *failure {
	switch {
	case err == io.EOF: //nolint:errorlint // of the reader itself
		return nil
	case isTimeout(a.reqCtx):
		return &failure{code: CodeTimeout, cause: context.Cause(a.reqCtx)}
	case errors.Is(err, errEventSize), errors.Is(err, errResponseSize):
		return &failure{code: CodeTooLarge, cause: err}
	}
	return &failure{code: CodeConnectionLost, cause: err}
}

var errResponseSize = errors.New("response exceeds the limit")

// responseReader reads a body up to a limit. The idle timer runs while it waits for the endpoint, and not while the log is slow.
type responseReader struct {
	in   io.Reader
	left int64 // negative from the start for no limit
	idle *outgoing.Timer
}

func (r *responseReader) Read(buf []byte) (int, error) {
	if r.left == 0 {
		return 0, errResponseSize
	}
	if r.left > 0 && int64(len(buf)) > r.left {
		buf = buf[:r.left]
	}
	r.idle.Start()
	n, err := r.in.Read(buf)
	r.idle.Stop()
	if r.left > 0 {
		r.left -= int64(n)
	}
	return n, err
}
