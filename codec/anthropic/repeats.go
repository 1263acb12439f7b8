package anthropic

import (
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
)

// maxTries bounds the blocks that a block is compared with: they come in the same order.
const maxTries = 64

// had reports whether a block of a message of the SDK was streamed before, and writes what was not.
func (t *translator) had(a *agent, c *dialect.Object) bool {
	kind, tries := c.Or("type", ""), 0
	for _, b := range a.m.blocks {
		if b.kind != kind || b.whole || b.repeated {
			continue
		}
		if b.repeated = t.repeats(a, b, c); b.repeated {
			return true
		}
		if tries++; tries == maxTries {
			break
		}
	}
	return false
}

// repeats reports whether c is the block b, and writes what c has besides.
func (t *translator) repeats(a *agent, b *block, c *dialect.Object) bool {
	switch {
	case b.kind == kindText:
		rest, ok := b.continued(c)
		if !ok {
			return false
		}
		t.text(a, b, rest)
		streamed := len(b.sources)
		for i, source := range c.List("citations") {
			if i < streamed && dialect.Same(b.sources[i], source.All()) {
				source.GetAll()
				continue
			}
			t.citation(a, b, source)
		}
	case b.kind == kindThinking:
		rest, ok := b.continued(c)
		if !ok {
			return false
		}
		t.thinking(a, b, rest)
		if signature := c.PeekText("signature"); signature == b.signature || !b.closed {
			b.signature = c.Or("signature", b.signature)
		}
	case b.call != nil:
		return t.repeatsCall(a, b, c)
	case dialect.Same(b.value, c.All()):
		c.GetAll()
	default:
		return false
	}
	return true
}

// continued returns what a text has behind that of a block, and false if it does not begin with it.
func (b *block) continued(c *dialect.Object) (rest string, ok bool) {
	whole, ok := dialect.Text(c.Peek(b.kind))
	if !ok {
		return "", false
	}
	if rest, ok = b.text.Rest(whole); ok {
		c.Text(b.kind)
	}
	return rest, ok
}

// repeatsCall does so for a call. It ends one whose arguments were not streamed to the end.
func (t *translator) repeatsCall(a *agent, b *block, c *dialect.Object) bool {
	k := b.call
	if c.PeekText("id") != k.id || c.PeekText("name") != k.name {
		return false
	}
	if !b.closed {
		if k.args.Len() > 0 && !dialect.Same([]byte(k.args.String()), c.Peek("input")) {
			k.args.Reset()
		}
		if k.args.Len() == 0 {
			if len(k.input) > len("{}") && !dialect.Same(k.input, c.Peek("input")) {
				a.KeepCall(k.id, k.name, k.input)
			}
			k.input = append(chunk.Value(nil), c.Peek("input")...)
		}
		t.closeBlock(a, b, false)
	}
	if !dialect.Same(k.input, c.Peek("input")) {
		a.Keep(b.kind, redact(c.All())) // a call starts once
	}
	c.Get("id")
	c.Get("name")
	c.Get("input")
	return true
}
