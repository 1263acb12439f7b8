package mastra

import (
	"cmp"
	"strings"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// AppendSnapshot appends a snapshot as one line of JSON: the messages as appendMessages writes them, in the member in which Mastra's client expects them, and
// the position from which the stream continues.
//
//	{"messages":[…],"status":"active","streamSequence":17,
//	 "before":"msg-4"}                                     of a page; null if there are no older messages
func AppendSnapshot(dst []byte, f aisdk.FrontendSnapshot) []byte {
	o := rawjson.Begin(dst)
	o.Name("messages")
	o.Dst = appendMessages(o.Dst, f)
	o.String("status", string(f.Status))
	o.Number("streamSequence", int64(f.StreamSequence))
	if f.Before != nil {
		o.TextOrNull("before", *f.Before)
	}
	return o.End()
}

// appendMessages appends the messages of a snapshot as the JSON array of messages that Mastra stores (MastraDBMessage, format 2), in which @mastra/client-js loads
// a thread and from which @mastra/ai-sdk makes the messages of a page:
//
//	[{"id":"msg-1","role":"assistant","createdAt":"2026-01-02T03:04:05.006Z","threadId":"s1",
//	  "content":{"format":2,"parts":[{"type":"step-start"},{"type":"text","text":"Hello"}],"content":"Hello"}}]
//
// Snapshots do not have the times of messages: createdAt of the last one is that of the snapshot, or the start of the last run if the snapshot has none, and a
// millisecond less for each before, so that the order by time, in which Mastra keeps them, is that of the conversation. Data parts have no ids.
func appendMessages(dst []byte, f aisdk.FrontendSnapshot) []byte {
	dst = append(dst, '[')
	last := cmp.Or(f.Timestamp, f.Run.StartedAt)
	for i := range f.Messages {
		if i > 0 {
			dst = append(dst, ',')
		}
		at := time.UnixMilli(last - int64(len(f.Messages)-1-i))
		dst = appendMessage(dst, &f.Messages[i], f.Session.ID, at)
	}
	return append(dst, ']')
}

func appendMessage(dst []byte, m *aisdk.UIMessage, thread string, at time.Time) []byte {
	o := rawjson.Begin(dst)
	o.String("id", m.ID)
	o.String("role", string(m.Role))
	o.String("createdAt", at.UTC().Format("2006-01-02T15:04:05.000Z"))
	o.Text("threadId", thread)
	o.Nest("content")
	o.Int("format", 2)
	o.Name("parts")
	o.Dst = append(o.Dst, '[')
	var text []byte
	for i, raw := range m.Parts {
		if i > 0 {
			o.Dst = append(o.Dst, ',')
		}
		p := dialect.Read(raw)
		kind, _ := p.Text("type")
		if piece, ok := p.Text("text"); ok && kind == "text" {
			text = append(text, piece...)
		}
		o.Dst = appendPart(o.Dst, kind, p, raw)
	}
	o.Dst = append(o.Dst, ']')
	o.Bytes("content", text)
	o.Raw("metadata", m.Metadata)
	o.Close()
	return o.End()
}

// appendPart appends a part of a message of the AI SDK in the form that Mastra stores. Parts of other types are the same in both.
func appendPart(dst []byte, kind string, p *dialect.Object, raw chunk.Value) []byte {
	tool, metadata := p.Peek("toolName"), p.Peek("providerMetadata")
	if name, static := strings.CutPrefix(kind, "tool-"); static {
		kind, tool = "dynamic-tool", rawjson.AppendQuoted(nil, name)
	}
	o := rawjson.Begin(dst)
	stored := kind
	switch kind {
	case "dynamic-tool":
		stored = "tool-invocation"
	case "source-url":
		stored = "source"
	}
	o.String("type", stored)
	switch {
	case kind == "text":
		o.Raw("text", p.Peek("text"))
	case kind == "reasoning":
		o.Raw("reasoning", p.Peek("text"))
		o.Name("details")
		o.Dst = append(o.Dst, `[{"type":"text","text":`...)
		o.Dst = append(append(o.Dst, p.Peek("text")...), "}]"...)
	case kind == "dynamic-tool":
		o.Nest("toolInvocation")
		appendCall(&o, tool, p)
		o.Close()
		o.Flag("providerExecuted", p.Flag("providerExecuted"))
	case kind == "file":
		o.Raw("mimeType", p.Peek("mediaType"))
		o.Raw("data", p.Peek("url"))
		o.Raw("filename", p.Peek("filename"))
	case kind == "source-url":
		o.Nest("source")
		o.String("sourceType", "url")
		o.Raw("id", p.Peek("sourceId"))
		o.Raw("url", p.Peek("url"))
		o.Raw("title", p.Peek("title"))
		o.Raw("providerMetadata", p.Peek("providerMetadata"))
		o.Close()
	case strings.HasPrefix(kind, "data-"):
		o.Raw("data", dialect.OrNull(p.Peek("data")))
	default:
		return append(dst, raw...)
	}
	if kind == "dynamic-tool" {
		metadata = p.Peek("callProviderMetadata")
	}
	o.Raw("providerMetadata", metadata)
	return o.End()
}

// appendCall appends the members of a tool call. Mastra has states of its own for those that older pages know.
func appendCall(o *rawjson.Object, tool chunk.Value, p *dialect.Object) {
	o.Raw("toolCallId", p.Peek("toolCallId"))
	o.Raw("toolName", tool)
	input := p.Peek("input")
	if input.IsNull() {
		input = chunk.Value("{}")
	}
	o.Raw("args", input)
	state, _ := p.Text("state")
	switch state {
	case "input-streaming":
		state = "partial-call"
	case "input-available":
		state = "call"
	case "output-available":
		state = "result"
	}
	o.String("state", state)
	if state == "result" {
		o.Raw("result", dialect.OrNull(p.Peek("output")))
	}
	o.Raw("errorText", p.Peek("errorText"))
	o.Raw("approval", p.Peek("approval"))
}
