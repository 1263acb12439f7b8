package producers

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tailrace/tailrace/chunk"
)

// state is the state of a stream according to its records. The zero state is active: a run that has started.
type state int

const (
	active state = iota
	paused
	ended
	failed
)

func (s state) String() string {
	return [...]string{"active", "paused", "ended", "failed"}[s]
}

// transition is the change of state that a record makes.
type transition struct {
	to    state
	clean bool // rejected while a chunk that was not stored is not reported
}

// nextState returns the state of the run after all queued records are stored.
func (r *Run) nextState() state {
	if r.pendingTransition != nil {
		return r.pendingTransition.transition.to
	}
	return r.state
}

// End completes the stream and blocks until its record, and all chunks emitted before, are stored. finalOutput is optional; if it is too large it is left out
// and listed in the member "omitted" of the record, because an end is never rejected for its size.
//
// Exactly one of End and Fail takes effect. After End, End does nothing and Fail returns ErrEnded; after Fail, vice versa. If an emitted chunk was not
// stored, End returns that error, once, and does not end the stream: call Fail, or call End again to accept the loss.
func (r *Run) End(ctx context.Context, finalOutput chunk.Value) error {
	end := chunk.StreamEnd{StreamID: r.session.ID}
	if len(finalOutput) > 0 {
		end.FinalOutput = &finalOutput
	}
	return r.transitionTo(ctx, transition{to: ended, clean: true}, r.chunk(end))
}

// Fail ends the stream with a failure and blocks until its record is stored. detail is optional. Parts that are too large are left out or cut, and listed as
// by End. Fail does not report chunks that were not stored. It leaves out the code chunk.CodeSessionDeleted, which only a deletion may write.
func (r *Run) Fail(ctx context.Context, message string, detail *chunk.ErrorDetail) error {
	if detail.IsDeletion() {
		other := *detail
		other.Code, detail = nil, &other
	}
	// The text of an error may be invalid UTF-8; a failure is not rejected for it.
	message = strings.ToValidUTF8(message, "\uFFFD")
	return r.transitionTo(ctx, transition{to: failed}, r.chunk(chunk.StreamFailed{Error: message, ErrorDetail: detail}))
}

// Pause suspends the stream while it waits for answers or sub-agents, and blocks until its record, and all chunks emitted before, are stored. A paused run
// accepts only Activate, End and Fail; a new run of the session may start. A second Pause does nothing. The reason is optional.
func (r *Run) Pause(ctx context.Context, reason string) error {
	var p chunk.StreamPaused
	if reason != "" {
		p.Reason = &reason
	}
	return r.transitionTo(ctx, transition{to: paused, clean: true}, r.chunk(p))
}

// Activate reopens a paused run and blocks until its record is stored. It does nothing if the run is active.
func (r *Run) Activate(ctx context.Context) error {
	return r.transitionTo(ctx, transition{to: active}, r.chunk(chunk.StreamActive{}))
}

// transitionTo writes the record of a transition if the state requires one. Transitions are serialized: a call during a transition waits for it and then
// decides by the new state. So of many concurrent Ends one is written, and all return its result.
func (r *Run) transitionTo(ctx context.Context, m transition, c chunk.Chunk) error {
	it, err := r.prepareMove(ctx, m, c)
	if err != nil {
		return r.notStored(c, err)
	}
	for {
		before, err := r.begin(it)
		switch {
		case errors.Is(err, errNoTransition):
			return nil
		case err != nil:
			return err
		case before == it:
			return r.await(ctx, it)
		}
		select {
		case <-before.done:
		case <-ctx.Done():
			return &notStoredError{Session: r.session, Type: it.typ, Cause: ctx.Err()}
		}
	}
}

// errNoTransition reports that the run is in the target state.
var errNoTransition = errors.New("no transition")

// begin queues it and returns it, or returns the transition to wait for.
func (r *Run) begin(it *item) (*item, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fatal != nil {
		return nil, r.pendingError()
	}
	if r.pendingTransition != nil {
		return r.pendingTransition, nil
	}
	if r.state == it.transition.to {
		return nil, errNoTransition
	}
	if r.state == ended || r.state == failed {
		return nil, &notStoredError{Session: r.session, Type: it.typ, Cause: fmt.Errorf("%w: state %s", ErrEnded, r.state)}
	}
	if r.closed {
		return nil, r.pendingError()
	}
	r.expedite(it)
	r.pendingTransition = it
	r.queue.push(it) // exceeds the limit of the queue: there is one at a time
	r.wakePump()
	return it, nil
}

func (r *Run) prepareMove(ctx context.Context, m transition, c chunk.Chunk) (*item, error) {
	c, body, err := r.encodeWhole(ctx, c)
	if errors.Is(err, chunk.ErrTooLarge) {
		c, body, err = fit(c, r.cfg.MaxChunk)
	}
	if err != nil {
		return nil, err
	}
	return &item{typ: c.Type(), timestamp: c.Timestamp, c: c, body: body, input: r.input.Load().whole(), transition: &m}, nil
}

// fit returns c and its JSON without the parts that make it too large.
func fit(c chunk.Chunk, limit int) (chunk.Chunk, []byte, error) {
	for {
		body, err := c.AppendJSON(nil)
		if err != nil || len(body) <= limit {
			return c, body, err
		}
		smaller, ok := reduce(c)
		if !ok {
			return c, nil, fmt.Errorf("%w: %d bytes of JSON, want at most %d", chunk.ErrTooLarge, len(body), limit)
		}
		c = smaller
	}
}

// reduce leaves out the largest optional part of a control record and lists it.
func reduce(c chunk.Chunk) (chunk.Chunk, bool) {
	const cut = 256 // bytes of a text that is cut
	switch b := c.Body.(type) {
	case chunk.StreamEnd:
		if b.FinalOutput != nil {
			b.FinalOutput = nil
			return without(c, b, "finalOutput"), true
		}
	case chunk.StreamFailed:
		if b.ErrorDetail != nil {
			b.ErrorDetail = nil
			return without(c, b, "errorDetail"), true
		}
		if len(b.Error) > cut {
			b.Error = strings.ToValidUTF8(b.Error[:cut], "")
			return without(c, b, "error"), true
		}
	case chunk.StreamPaused:
		if b.Reason != nil {
			b.Reason = nil
			return without(c, b, "reason"), true
		}
	}
	return c, false
}

// without returns c with a smaller body and the name of the missing part in "omitted".
func without(c chunk.Chunk, body chunk.Body, name string) chunk.Chunk {
	const member = "omitted"
	c.Body = body
	names := `"` + name + `"`
	if n := len(c.Extra); n > 0 && c.Extra[n-1].Name == member {
		list := c.Extra[n-1].Value
		names = string(list[1:len(list)-1]) + "," + names
		c.Extra = c.Extra[:n-1]
	}
	c.Extra = append(c.Extra, chunk.Member{Name: member, Value: chunk.Value("[" + names + "]")})
	return c
}
