package fold

import (
	"strconv"

	"github.com/tailrace/tailrace/chunk"
)

// appendMessage writes a message in its stored form. Its parts are written as a
// browser gets them.
func appendMessage(dst []byte, m *message) []byte {
	o := beginObject(dst)
	o.number("index", int64(m.index))
	o.number("shown", int64(m.shown))
	o.str("role", string(m.role))
	o.text("clientId", m.clientID)
	o.value("metadata", m.metadata)
	o.list("parts", len(m.parts), func(dst []byte, i int) []byte { return appendPart(dst, &m.parts[i]) })
	o.list("children", len(m.children), func(dst []byte, i int) []byte { return m.children[i].append(dst) })
	o.number("first", int64(m.first))
	o.number("last", int64(m.last))
	o.flag("closed", m.closed)
	return o.end()
}

func (c Child) append(dst []byte) []byte {
	o := beginObject(dst)
	o.str("session", c.Session)
	o.text("type", c.Type)
	o.str("callId", c.CallID)
	o.str("status", string(c.Status))
	o.value("result", c.Result)
	return o.end()
}

func appendPart(dst []byte, p *part) []byte {
	switch p.kind {
	case textPart:
		return p.appendText(dst, "text")
	case reasoningPart:
		return p.appendText(dst, "reasoning")
	case toolPart:
		return p.tool.append(dst)
	default:
		return append(dst, p.raw...)
	}
}

func (p *part) appendText(dst []byte, kind string) []byte {
	o := beginObject(dst)
	o.str("type", kind)
	o.name("text")
	o.dst = appendStringBytes(o.dst, p.text)
	if p.open {
		o.str("state", "streaming")
	} else {
		o.str("state", "done")
	}
	return o.end()
}

func (t *tool) append(dst []byte) []byte {
	o := beginObject(dst)
	o.str("type", "dynamic-tool")
	o.str("toolName", t.name)
	o.str("toolCallId", t.callID)
	o.str("state", string(t.state))
	if t.state == inputStreaming {
		o.name("rawInput")
		o.dst = appendStringBytes(o.dst, t.rawInput)
	}
	o.value("input", t.input)
	if t.state == outputAvailable {
		o.value("output", t.output)
	}
	if t.state == outputError {
		o.str("errorText", t.errorText)
	}
	if t.approval != nil {
		o.name("approval")
		a := beginObject(o.dst)
		a.str("id", t.approval.id)
		if t.approval.approved != nil {
			a.name("approved")
			a.dst = strconv.AppendBool(a.dst, *t.approval.approved)
		}
		a.maybe("reason", t.approval.reason)
		o.dst = a.end()
	}
	o.flag("providerExecuted", t.providerExecuted)
	return o.end()
}

func appendData(dst []byte, b chunk.Custom) []byte {
	o := beginObject(dst)
	o.str("type", "data-"+b.EventName)
	o.value("data", orNull(b.Data))
	return o.end()
}

func appendFile(dst []byte, url, mediaType string, filename *string) []byte {
	o := beginObject(dst)
	o.str("type", "file")
	o.str("mediaType", mediaType)
	o.str("url", url)
	o.maybe("filename", filename)
	return o.end()
}

func appendSourceURL(dst []byte, b chunk.SourceURL) []byte {
	o := beginObject(dst)
	o.str("type", "source-url")
	o.str("sourceId", b.SourceID)
	o.str("url", b.URL)
	o.maybe("title", b.Title)
	return o.end()
}

func appendSourceDocument(dst []byte, b chunk.SourceDocument) []byte {
	o := beginObject(dst)
	o.str("type", "source-document")
	o.str("sourceId", b.SourceID)
	o.str("mediaType", b.MediaType)
	o.str("title", b.Title)
	o.maybe("filename", b.Filename)
	return o.end()
}
