package langgraph

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// block is a block of the content of a message.
type block struct {
	index, kind string
	first       chunk.Value     // what it began with, if that is not written
	data        strings.Builder // the pieces of a file, or the arguments of a call, which are written as far as the call has begun
	call        *call
	id, name    string          // of the call
	sources     []chunk.Value   // annotations that are written
	text        dialect.Written // the end of the block repeats it
}

const (
	kindText      = "text"
	kindReasoning = "reasoning"
	kindCall      = "tool_call"
	kindServer    = "server_tool_call"
)

// maxData bounds the bytes of the pieces of a block.
const maxData = 4 << 20

// blockOf returns the block in an event.
func blockOf(d *dialect.Object) *dialect.Object {
	if c := d.Object("content"); c != nil {
		return c
	}
	return d.Object(either(d, "content_block"))
}

// kindOf returns the kind of a block, of which a piece and the whole have the same one.
func kindOf(c *dialect.Object) string {
	switch kind := c.PeekText("type"); kind {
	case "tool_call_chunk", "invalid_tool_call":
		return kindCall
	case "server_tool_call_chunk":
		return kindServer
	default:
		return kind
	}
}

// add adds the block that begins with an event. A block with the same index has ended.
func (m *message) add(d *dialect.Object) *block {
	b := &block{index: string(d.Peek("index"))}
	m.blocks, m.open[b.index] = append(m.blocks, b), b
	return b
}

func (m *message) remove(b *block) {
	m.blocks = slices.DeleteFunc(m.blocks, func(o *block) bool { return o == b })
	if m.open[b.index] == b {
		delete(m.open, b.index)
	}
}

// blockStart writes what a block begins with.
func (t *translator) blockStart(a *agent, b *block, c *dialect.Object) bool {
	switch b.kind = kindOf(c); b.kind {
	case kindText, kindReasoning, kindCall, kindServer:
		c.Text("type")
		return t.update(a, b, c)
	}
	b.first = slices.Clone(c.GetAll())
	return true
}

// update writes what c, the block as far as it is known, has more than what is written.
func (t *translator) update(a *agent, b *block, c *dialect.Object) bool {
	understood := true
	switch b.kind {
	case kindText, kindReasoning:
		if whole, ok := dialect.Text(c.Peek(b.kind)); ok {
			var rest string
			if rest, understood = b.text.Rest(whole); understood {
				c.Get(b.kind)
				t.write(a, b, rest)
			}
		}
		list := c.List("annotations")
		for i, s := range list {
			switch {
			case s == nil:
			case i < len(b.sources) && string(b.sources[i]) == string(s.All()):
				s.GetAll()
			default:
				b.sources = append(b.sources, slices.Clone(s.All()))
				t.source(a, s)
			}
		}
	default:
		if b.call == nil {
			b.id, b.name = c.Or("id", b.id), c.Or("name", b.name)
		}
		whole, ok := dialect.Text(c.Peek("args"))
		had := b.data.String()
		if understood = strings.HasPrefix(whole, had); ok && understood {
			c.Get("args")
			t.arguments(a, b, whole[len(had):])
		}
		understood = understood || !ok
	}
	return understood
}

// write writes a piece of a text or a thought.
func (t *translator) write(a *agent, b *block, piece string) {
	if piece == "" {
		return
	}
	b.text.Add(piece)
	if b.kind == kindText {
		a.Text(piece)
	} else {
		a.Emit(chunk.Thinking{Content: piece})
	}
}

// delta writes a piece of a block. A piece of another kind than its block begins another block.
func (t *translator) delta(a *agent, m *message, d *dialect.Object) bool {
	c := d.Object("delta")
	kind := c.PeekText("type")
	inside := func(possible ...string) *block {
		b := m.open[string(d.Peek("index"))]
		if b == nil || !slices.Contains(possible, b.kind) {
			if b != nil {
				t.closeBlock(a, b, nil)
			}
			b = m.add(d)
			b.kind = possible[0]
		}
		c.Text("type")
		return b
	}
	switch kind {
	case "text-delta", "reasoning-delta":
		of := strings.TrimSuffix(kind, "-delta")
		piece, ok := c.Text(of)
		if ok {
			t.write(a, inside(of), piece)
		}
		return ok
	case "tool-call-delta":
		piece, ok := c.Text("args")
		if ok {
			t.arguments(a, inside(kindCall, kindServer), piece)
		}
		return ok
	case "data-delta":
		b := m.open[string(d.Peek("index"))]
		piece := c.PeekText("data")
		if b == nil || b.first == nil || b.data.Len()+len(piece) > maxData {
			return false
		}
		c.Text("type")
		c.Text("data")
		b.data.WriteString(piece)
		return true
	case "block-delta":
		f := c.Object("fields")
		of := kindOf(f)
		switch of {
		case kindText, kindReasoning, kindCall, kindServer:
			b := inside(of)
			f.Text("type")
			return t.update(a, b, f)
		}
	}
	return false
}

// blockEnd writes what a whole block has more than what is written of it.
func (t *translator) blockEnd(a *agent, b *block, c *dialect.Object) bool {
	kind := kindOf(c)
	if b.kind != "" && b.kind != kind {
		t.closeBlock(a, b, nil)
	}
	b.kind = kind
	switch kind {
	case kindText, kindReasoning:
		understood := t.update(a, b, c)
		c.Text("type")
		t.closeBlock(a, b, c)
		return understood
	case kindCall, kindServer:
		t.closeBlock(a, b, c)
		return true
	}
	if b.first != nil && !covers(b, c) {
		b.keep(a)
	}
	b.first = nil
	a.m.remove(b)
	switch kind {
	case "server_tool_result":
		return t.serverResult(a, c)
	case "image", "audio", "video", "file":
		return t.file(a, b, c)
	}
	a.Keep(kind, redact(c.GetAll()))
	return true
}

// covers reports whether the whole block has all that it began with.
func covers(b *block, c *dialect.Object) bool {
	for name, value := range rawjson.Members(b.first) {
		if n := string(name.Bytes()); n != "base64" && string(c.Peek(n)) != string(value) {
			return false
		} else if n == "base64" && !strings.HasPrefix(c.PeekText(n), dialect.TextAt(value)) {
			return false
		}
	}
	return strings.HasSuffix(c.PeekText("base64"), b.data.String())
}

// closeBlock writes what a block ends with. c is the whole block, nil for one that was cut off.
func (t *translator) closeBlock(a *agent, b *block, c *dialect.Object) {
	a.m.remove(b)
	switch {
	case b.kind == kindReasoning:
		a.EmitValid(chunk.Thinking{IsComplete: true})
	case b.kind == kindCall || b.kind == kindServer:
		t.callEnd(a, b, c)
	case b.first != nil:
		b.keep(a)
	}
	b.first, b.call, b.id, b.name, b.text = nil, nil, "", "", dialect.Written{}
	b.data.Reset()
}

// keep keeps what a block began with, and its pieces.
func (b *block) keep(a *agent) {
	a.Keep(cmp.Or(b.kind, "unknown"), redact(b.first))
	if b.data.Len() > 0 {
		a.Keep("data-delta", dialect.Quote(b.data.String()))
	}
}

// file writes a file. One that only has an id at its provider is kept.
func (t *translator) file(a *agent, b *block, c *dialect.Object) bool {
	media, url := c.Or(either(c, "mime_type"), "application/octet-stream"), c.Or("url", "")
	if data := c.Or("base64", b.data.String()); url == "" && data != "" {
		url = "data:" + media + ";base64," + data
	} else if data != "" {
		c.Unread("base64")
	}
	c.Text("type")
	return url != "" && a.EmitValid(chunk.File{URL: url, MediaType: media})
}

// source writes an annotation of a text.
func (t *translator) source(a *agent, c *dialect.Object) {
	a.sources++
	whole, id := c.GetAll(), fmt.Sprintf("source_%d_%d", a.Step, a.sources)
	o := rawjson.Begin(nil)
	o.Raw("annotation", redact(whole))
	with := chunk.Member{Name: memberName, Value: o.End()}
	url, isURL := c.Text("url")
	switch kind := c.PeekText("type"); {
	case kind != "citation":
	case isURL && a.EmitValid(chunk.SourceURL{SourceID: id, URL: url, Title: c.Maybe("title")}, with):
		return
	case !isURL && a.EmitValid(chunk.SourceDocument{SourceID: id, MediaType: "text/plain", Title: c.Or("title", "")}, with):
		return
	}
	a.Keep("annotation", redact(whole))
}
