package fold

import (
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// appendMessage appends the stored form of a message. Its parts have the form of the AI SDK.
func appendMessage(dst []byte, m *message) []byte {
	o := rawjson.Begin(dst)
	o.Int("index", int64(m.index))
	o.Int("shown", int64(m.shown))
	o.String("role", string(m.role))
	o.Text("clientId", m.clientID)
	o.Raw("metadata", m.metadata)
	o.Int("from", int64(m.sealed))
	o.List("parts", len(m.parts), func(dst []byte, i int) []byte { return appendPart(dst, &m.parts[i]) })
	o.List("children", len(m.children), func(dst []byte, i int) []byte { return m.children[i].AppendJSON(dst) })
	o.Int("first", int64(m.first))
	o.Int("last", int64(m.last))
	o.Flag("closed", m.closed)
	return o.End()
}

// AppendJSON appends c as it is stored and as clients get it.
func (c Child) AppendJSON(dst []byte) []byte {
	o := rawjson.Begin(dst)
	o.String("session", c.Session)
	o.Text("type", c.Type)
	o.String("callId", c.CallID)
	o.String("status", string(c.Status))
	o.Raw("result", c.Result)
	return o.End()
}

func appendPart(dst []byte, p *part) []byte {
	switch p.kind {
	case textPart:
		return appendText(dst, "text", p.text, p.open, p.meta)
	case reasoningPart:
		return appendText(dst, "reasoning", p.text, p.open, p.meta)
	case toolPart:
		return p.tool.AppendJSON(dst)
	default:
		return append(dst, p.raw...)
	}
}

func appendText[T ~string | ~[]byte](dst []byte, kind string, text T, streaming bool, meta chunk.Value) []byte {
	o := rawjson.Begin(dst)
	o.String("type", kind)
	o.Name("text")
	o.Dst = rawjson.AppendQuoted(o.Dst, text)
	if streaming {
		o.String("state", "streaming")
	} else {
		o.String("state", "done")
	}
	o.Raw("providerMetadata", meta)
	return o.End()
}

func appendData(dst []byte, b chunk.Custom, ui chunk.Part) []byte {
	o := rawjson.Begin(dst)
	o.String("type", "data-"+b.EventName)
	o.Raw("id", ui.ID)
	o.Raw("data", orNull(b.Data))
	return o.End()
}

func appendInputData(dst []byte, d chunk.InputData) []byte {
	o := rawjson.Begin(dst)
	o.String("type", "data-"+d.Name)
	o.Maybe("id", d.ID)
	o.Raw("data", orNull(d.Data))
	return o.End()
}

func appendFile(dst []byte, url, mediaType string, filename *string, ui chunk.Part) []byte {
	o := rawjson.Begin(dst)
	o.String("type", "file")
	o.String("mediaType", mediaType)
	o.String("url", url)
	o.Maybe("filename", filename)
	o.Raw("providerMetadata", ui.ProviderMetadata)
	return o.End()
}

func appendSourceURL(dst []byte, b chunk.SourceURL, ui chunk.Part) []byte {
	o := rawjson.Begin(dst)
	o.String("type", "source-url")
	o.String("sourceId", b.SourceID)
	o.String("url", b.URL)
	o.Maybe("title", b.Title)
	o.Raw("providerMetadata", ui.ProviderMetadata)
	return o.End()
}

func appendSourceDocument(dst []byte, b chunk.SourceDocument, ui chunk.Part) []byte {
	o := rawjson.Begin(dst)
	o.String("type", "source-document")
	o.String("sourceId", b.SourceID)
	o.String("mediaType", b.MediaType)
	o.String("title", b.Title)
	o.Maybe("filename", b.Filename)
	o.Raw("providerMetadata", ui.ProviderMetadata)
	return o.End()
}
