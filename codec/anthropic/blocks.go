package anthropic

import (
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// block is a block of the content of a message.
type block struct {
	index, kind string
	whole       bool // it was not streamed
	closed      bool
	repeated    bool          // a message of the SDK has it too
	value       chunk.Value   // of a block that is neither a text nor a call
	sources     []chunk.Value // the citations
	signature   string
	call        *call
	text        dialect.Written // the SDK repeats it
}

const (
	kindText     = "text"
	kindThinking = "thinking"
)

// block returns the open block that an event is of, nil for none.
func (a *agent) block(o *dialect.Object) *block {
	if a.m == nil || a.m.ended {
		return nil
	}
	return a.m.open[string(o.Peek("index"))]
}

// add adds a block, which events with its index are of until it ends.
func (m *message) add(b *block) {
	m.blocks, m.open[b.index] = append(m.blocks, b), b
}

func (t *translator) blockStart(a *agent, o *dialect.Object) bool {
	c := o.Object("content_block")
	if c == nil {
		return false
	}
	if before := a.block(o); before != nil {
		t.closeBlock(a, before, false)
	}
	b := &block{index: string(o.Peek("index")), kind: c.Or("type", "")}
	t.current(a).add(b)
	return t.startBlock(a, b, c)
}

// startBlock writes what a block begins with, or reports false. One that was not streamed begins with all of it.
func (t *translator) startBlock(a *agent, b *block, c *dialect.Object) bool {
	switch {
	case b.kind == "":
		return false
	case b.kind == kindText:
		t.text(a, b, c.Or("text", ""))
		for _, source := range c.List("citations") {
			t.citation(a, b, source)
		}
	case b.kind == kindThinking:
		t.thinking(a, b, c.Or("thinking", ""))
		b.signature = c.Or("signature", "")
	case strings.HasSuffix(b.kind, "tool_use"):
		return t.callStart(a, b, c)
	case b.kind == "redacted_thinking":
		data, ok := c.Text("data")
		t.note(b, c)
		return ok && a.EmitValid(chunk.Thinking{IsComplete: true}, state("redactedData", data)...)
	case strings.HasSuffix(b.kind, "tool_result"):
		t.note(b, c)
		return t.result(a, c, nil)
	default:
		t.note(b, c)
		a.Keep(b.kind, redact(c.GetAll()))
	}
	return true
}

// note keeps the value of a block that a message of the SDK may repeat.
func (t *translator) note(b *block, c *dialect.Object) {
	if t.sdk && !b.whole {
		b.value = c.All()
	}
}

func (t *translator) delta(a *agent, o *dialect.Object) bool {
	d, b := o.Object("delta"), a.block(o)
	kind := d.Or("type", "")
	switch kind {
	case "text_delta":
		piece, ok := d.Text("text")
		t.text(a, t.inside(a, b, o, kindText), piece)
		return ok
	case "thinking_delta":
		piece, ok := d.Text("thinking")
		t.thinking(a, t.inside(a, b, o, kindThinking), piece)
		return ok
	case "signature_delta":
		piece, ok := d.Text("signature")
		if b == nil || b.kind != kindThinking || !ok {
			return false
		}
		b.signature += piece
	case "input_json_delta":
		piece, ok := d.Text("partial_json")
		return ok && b != nil && b.call != nil && t.arguments(a, b.call, piece)
	case "citations_delta":
		if d.Object("citation") == nil {
			return false
		}
		t.citation(a, b, d.Object("citation"))
	case "":
		return false
	default:
		t.current(a)
		a.Keep(kind, redact(d.GetAll()))
	}
	return true
}

// inside returns the block of a delta, which begins one if it has no start. A delta of another kind than its block is of none.
func (t *translator) inside(a *agent, b *block, o *dialect.Object, kind string) *block {
	m := t.current(a)
	switch {
	case b == nil:
		b = &block{index: string(o.Peek("index")), kind: kind}
		m.add(b)
	case b.kind != kind:
		return nil
	}
	return b
}

func (t *translator) text(a *agent, b *block, piece string) {
	if piece == "" {
		return
	}
	t.current(a).content = true
	b.add(piece)
	a.Text(piece)
}

func (t *translator) thinking(a *agent, b *block, piece string) {
	if piece == "" {
		return
	}
	b.add(piece)
	a.Emit(chunk.Thinking{Content: piece})
}

// add notes a piece of the text of a block.
func (b *block) add(piece string) {
	if b != nil {
		b.text.Add(piece)
	}
}

// closeBlock writes what a block ends with, once. One that was cut off has no complete call.
func (t *translator) closeBlock(a *agent, b *block, cut bool) {
	if b.closed {
		return
	}
	b.closed = true
	if a.m != nil && a.m.open[b.index] == b {
		delete(a.m.open, b.index)
	}
	switch {
	case b.kind == kindThinking:
		a.EmitValid(chunk.Thinking{IsComplete: true}, state("signature", b.signature)...)
	case b.call != nil:
		t.callEnd(a, b.call, cut)
	}
}

// state returns the additional member of a thinking that the model wants back, in the form of the AI SDK.
func state(name, value string) []chunk.Member {
	if value == "" {
		return nil
	}
	o := rawjson.Begin(nil)
	o.Nest(memberName)
	o.Raw(name, dialect.Quote(value))
	o.Close()
	p := chunk.Part{ProviderMetadata: o.End()}
	return p.Extra()
}
