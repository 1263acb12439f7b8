package anthropic

import (
	"encoding/json"
	"reflect"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
)

// maxTries bounds the blocks that a block is compared with: they come in the same order.
const maxTries = 64

// had reports whether a block of a message of the SDK was streamed before, and writes what was not.
func (t *Translator) had(a *agent, c *dialect.Object) bool {
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
func (t *Translator) repeats(a *agent, b *block, c *dialect.Object) bool {
	switch {
	case b.kind == kindText:
		rest, ok := b.continued(c)
		if !ok {
			return false
		}
		t.text(a, b, rest)
		streamed := len(b.sources)
		for i, source := range c.List("citations") {
			if i < streamed && same(b.sources[i], source.All()) {
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
		if signature := text(c.Peek("signature")); signature == b.signature || !b.closed {
			b.signature = c.Or("signature", b.signature)
		}
	case b.call != nil:
		return t.repeatsCall(a, b, c)
	case same(b.value, c.All()):
		c.GetAll()
	default:
		return false
	}
	return true
}

// continued returns what a text has behind that of a block, and false if it does not begin with it.
func (b *block) continued(c *dialect.Object) (rest string, ok bool) {
	whole, ok := dialect.Text(c.Peek(b.kind))
	if !ok || len(whole) < b.size || hashOf(0, whole[:b.size]) != b.sum {
		return "", false
	}
	c.Text(b.kind)
	return whole[b.size:], true
}

// repeatsCall does so for a call. It ends one whose arguments were not streamed to the end.
func (t *Translator) repeatsCall(a *agent, b *block, c *dialect.Object) bool {
	k := b.call
	if text(c.Peek("id")) != k.id || text(c.Peek("name")) != k.name {
		return false
	}
	if !b.closed {
		if k.args.Len() > 0 && !same([]byte(k.args.String()), c.Peek("input")) {
			k.args.Reset()
		}
		if k.args.Len() == 0 {
			if len(k.input) > len("{}") && !same(k.input, c.Peek("input")) {
				a.keepCall(k, k.input)
			}
			k.input = append(chunk.Value(nil), c.Peek("input")...)
		}
		t.closeBlock(a, b, false)
	}
	if !same(k.input, c.Peek("input")) {
		a.Keep(b.kind, redact(c.All())) // a call starts once
	}
	c.Get("id")
	c.Get("name")
	c.Get("input")
	return true
}

// same reports whether two values have the same meaning: the SDK writes what it has read.
func same(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
