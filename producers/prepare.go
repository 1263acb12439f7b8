package producers

import (
	"context"
	"fmt"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// prepare checks c and returns an item to queue. A delta that is too large is split into several items, which are linked from the last to the first.
func (r *Run) prepare(ctx context.Context, c chunk.Chunk) (*item, error) {
	c, err := r.complete(c)
	if err != nil {
		return nil, err
	}
	if text, ok := deltaText(c.Body); ok && len(c.Extra) == 0 { // deltas with extra members are not merged
		return r.prepareDelta(c, text)
	}
	return r.prepareWhole(ctx, c)
}

// complete fills in the base members and rejects invalid chunks.
func (r *Run) complete(c chunk.Chunk) (chunk.Chunk, error) {
	if c.Body == nil {
		return c, &chunk.FieldError{Field: "type", Want: "a chunk with a body"}
	}
	typ := c.Type()
	if typ.Control() {
		return c, &chunk.FieldError{Type: typ, Field: "type", Want: "no control record: the run writes them itself", Got: string(typ)}
	}
	if o, ok := c.Body.(chunk.Opaque); ok {
		return r.completeOpaque(o)
	}
	if c.AgentID == "" {
		c.AgentID = r.session.ID
	}
	if c.AgentType == "" {
		c.AgentType = *r.agentType.Load()
	}
	if c.Timestamp == 0 {
		c.Timestamp = time.Now().UnixMilli()
	}
	return c, r.checkAgent(c)
}

// completeOpaque checks a chunk of an unknown type by its bytes, which are stored unchanged: they determine the type and the base members.
func (r *Run) completeOpaque(o chunk.Opaque) (chunk.Chunk, error) {
	c, err := chunk.Decode(o.Raw)
	if err != nil {
		return c, err
	}
	if _, ok := c.Body.(chunk.Opaque); !ok || c.Type() != o.Kind {
		return c, &chunk.FieldError{Type: o.Kind, Field: "type", Want: fmt.Sprintf("%q, the type of its bytes", c.Type()), Got: fmt.Sprintf("%q", o.Kind)}
	}
	return c, r.checkAgent(c)
}

func (r *Run) checkAgent(c chunk.Chunk) error {
	if c.AgentID != r.session.ID {
		return &chunk.FieldError{Type: c.Type(), Field: "agentId", Want: fmt.Sprintf("%q, the session of the run", r.session.ID), Got: fmt.Sprintf("%q", c.AgentID)}
	}
	return nil
}

// usualSize is the initial capacity for the JSON of a chunk.
const usualSize = 256

// prepareWhole returns the item of a chunk that is stored unchanged, except for large values. AppendJSON rejects invalid chunks.
func (r *Run) prepareWhole(ctx context.Context, c chunk.Chunk) (*item, error) {
	c, body, err := r.encodeWhole(ctx, c)
	if err != nil {
		return nil, err
	}
	return &item{typ: c.Type(), timestamp: c.Timestamp, c: c, body: body, input: r.input.Load().whole()}, nil
}

// headerReserve is the largest size of the headers of a message.
const headerReserve = 1 << 10

func (r *Run) prepareDelta(c chunk.Chunk, text string) (*item, error) {
	body, err := c.AppendJSON(make([]byte, 0, usualSize))
	if err != nil {
		return nil, err
	}
	if limit := min(r.cfg.MaxChunk, r.log.maxMessageSize()-headerReserve); len(body) > limit {
		return splitDelta(c, limit, r.input.Load())
	}
	it := newDelta(c, text)
	it.body, it.input = body, r.input.Load().whole()
	return it, nil
}

func newDelta(c chunk.Chunk, text string) *item {
	return &item{typ: c.Type(), timestamp: c.Timestamp, c: c, delta: true, size: len(text)}
}

func splitDelta(c chunk.Chunk, limit int, input *input) (*item, error) {
	parts := chunk.Split(c, limit)
	if parts == nil {
		return nil, fmt.Errorf("%w: members other than the text exceed %d bytes", chunk.ErrTooLarge, limit)
	}
	var last *item
	var size int64
	for i, c := range parts {
		text, _ := deltaText(c.Body)
		it := newDelta(c, text)
		it.prevPart, it.input = last, input.whole()
		if size += int64(len(text)); input != nil && i < len(parts)-1 {
			it.input = input.part(size)
		}
		last = it
	}
	return last, nil
}
