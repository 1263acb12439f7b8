package producers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// state of a stream, as its records tell it. The zero state is active: a run
// that has begun.
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

// move is a change of state that a record makes.
type move struct {
	to    state
	clean bool // refused while the loss of an emitted chunk has not been told
}

// heading is the state that the run is in once everything queued is stored.
func (r *Run) heading() state {
	if r.moving != nil {
		return r.moving.move.to
	}
	return r.state
}

// End ends the stream well and returns when that, and everything emitted
// before, is stored. A finalOutput of nil is none; one that is too large is
// left out and named in the member "omitted" of the record, because an end is
// never refused for its size.
//
// Exactly one of End and Fail wins. After an End, End does nothing and Fail is
// refused with ErrEnded; after a Fail the other way round. If an emitted chunk
// was lost, End returns that error, once, and does not end the stream: call
// Fail, or End again to accept the loss.
func (r *Run) End(ctx context.Context, finalOutput chunk.Value) error {
	end := chunk.StreamEnd{StreamID: r.session.ID}
	if len(finalOutput) > 0 {
		end.FinalOutput = &finalOutput
	}
	return r.change(ctx, move{to: ended, clean: true}, r.chunk(end))
}

// Fail ends the stream badly and returns when that is stored. A detail of nil
// is none. What is too large is left out or cut, and named as End does it. A
// loss that nobody was told of is not told here: the stream failed anyway.
func (r *Run) Fail(ctx context.Context, message string, detail *chunk.ErrorDetail) error {
	// The text of an error may be anything; a failure is not refused for it.
	message = strings.ToValidUTF8(message, "\uFFFD")
	return r.change(ctx, move{to: failed}, r.chunk(chunk.StreamFailed{Error: message, ErrorDetail: detail}))
}

// Pause closes the stream at a point where it waits for people or children, and
// returns when that, and everything emitted before, is stored. A paused run
// takes nothing but Activate, End and Fail; a new run of the session may start.
// Pausing again does nothing. A reason of "" is none.
func (r *Run) Pause(ctx context.Context, reason string) error {
	var p chunk.StreamPaused
	if reason != "" {
		p.Reason = &reason
	}
	return r.change(ctx, move{to: paused, clean: true}, r.chunk(p))
}

// Activate opens a paused run again, and returns when that is stored. An active
// run stays as it is.
func (r *Run) Activate(ctx context.Context) error {
	return r.change(ctx, move{to: active}, r.chunk(chunk.StreamActive{}))
}

// change writes the record of a move if the table of moves asks for one. Moves
// come one after the other: who calls while one is under way waits for it and
// then decides from the state it led to. So of many Ends one is written and all
// return its result.
func (r *Run) change(ctx context.Context, m move, c chunk.Chunk) error {
	it, err := r.prepareMove(m, c)
	if err != nil {
		return r.notStored(c, err)
	}
	for {
		before, err := r.begin(it)
		switch {
		case errors.Is(err, errAlready):
			return nil
		case err != nil:
			return err
		case before == it:
			return r.await(ctx, it)
		}
		select {
		case <-before.done:
		case <-ctx.Done():
			return &NotStoredError{Session: r.session, Type: it.typ, Cause: ctx.Err()}
		}
	}
}

// errAlready: the run is where the move leads.
var errAlready = errors.New("nothing to do")

// begin queues it and returns it, or returns the move to wait for.
func (r *Run) begin(it *item) (*item, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dead != nil {
		return nil, r.usable()
	}
	if r.moving != nil {
		return r.moving, nil
	}
	if r.state == it.move.to {
		return nil, errAlready
	}
	if r.state == ended || r.state == failed {
		return nil, &NotStoredError{Session: r.session, Type: it.typ, Cause: fmt.Errorf("%w: it is %s", ErrEnded, r.state)}
	}
	if r.closed {
		return nil, r.usable()
	}
	r.attend(it)
	r.moving = it
	r.queue.push(it) // past the limit: there is one at a time
	r.kick()
	return it, nil
}

func (r *Run) prepareMove(m move, c chunk.Chunk) (*item, error) {
	c, body, err := fit(c, r.cfg.MaxChunk)
	if err != nil {
		return nil, err
	}
	return &item{typ: c.Type(), timestamp: c.Timestamp, c: c, body: body, move: &m, at: time.Now()}, nil
}

// fit is c with its JSON, less the parts that make it too large.
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

// reduce leaves out the largest optional part of a stream's own record and
// names it.
func reduce(c chunk.Chunk) (chunk.Chunk, bool) {
	const cut = 256 // bytes that stay of a text that had to be cut
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
			b.Error = clip(b.Error, cut)
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

// without is c with a smaller body and the name of what it lacks in "omitted".
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

// clip is the beginning of s, at most n bytes, not cut within a character.
func clip(s string, n int) string {
	for n > 0 && n < len(s) && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:min(n, len(s))]
}
