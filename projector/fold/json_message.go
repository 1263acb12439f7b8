package fold

import (
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// storedMessage returns the stored form of a message. Its parts have the form of the AI SDK.
func storedMessage(m *message) []byte { return appendForm(nil, m, (*message).fields) }

func (r *reader) message(raw []byte) (m message) {
	m.fields(&form{in: r.members(raw), r: r})
	return m
}

func (m *message) fields(f *form) {
	numberMember(f, "index", &m.index)
	numberMember(f, "shown", &m.shown)
	stringMember(f, "role", &m.role)
	textMember(f, "clientId", &m.clientID)
	f.raw("metadata", &m.metadata)
	numberMember(f, "from", &m.sealed)
	listMember(f, "parts", &m.parts, appendPart, f.r.part)
	objectsMember(f, "children", &m.children, childFields)
	numberMember(f, "first", &m.first)
	numberMember(f, "last", &m.last)
	f.flag("closed", &m.closed)
	for i := range m.parts {
		if f.r != nil && m.parts[i].open {
			m.text = i + 1
		}
	}
}

// AppendJSON appends c as it is stored and as clients get it.
func (c Child) AppendJSON(dst []byte) []byte { return appendForm(dst, &c, childFields) }

func childFields(c *Child, f *form) {
	stringMember(f, "session", &c.Session)
	textMember(f, "type", &c.Type)
	stringMember(f, "callId", &c.CallID)
	stringMember(f, "status", &c.Status)
	f.raw("result", &c.Result)
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

func (r *reader) part(raw []byte) part {
	if isRaw(raw) {
		return part{raw: raw}
	}
	m := r.members(raw)
	kind := r.str(m["type"])
	if name, static := strings.CutPrefix(kind, staticTool); static {
		t := r.tool(m)
		t.Name, t.Static = name, true
		return part{kind: toolPart, tool: t}
	}
	switch kind {
	case "text":
		return part{kind: textPart, text: r.bytes(m["text"]), open: r.str(m["state"]) == "streaming", meta: m["providerMetadata"]}
	case "reasoning":
		return part{kind: reasoningPart, text: r.bytes(m["text"]), open: r.str(m["state"]) == "streaming", meta: m["providerMetadata"]}
	case "dynamic-tool":
		return part{kind: toolPart, tool: r.tool(m)}
	default:
		return part{raw: raw}
	}
}

func (r *reader) tool(m map[string]chunk.Value) *ToolCall {
	t := &ToolCall{
		ID: r.str(m["toolCallId"]), Name: r.str(m["toolName"]), State: CallState(r.str(m["state"])),
		rawInput: r.bytes(m["rawInput"]), Input: m["input"], Output: m["output"], Error: r.str(m["errorText"]),
		ProviderExecuted: r.flag(m["providerExecuted"]),
	}
	for _, name := range toolExtras {
		if v, ok := m[name]; ok {
			t.Extra = append(t.Extra, chunk.Member{Name: name, Value: v})
		}
	}
	if raw, ok := m["approval"]; ok {
		a := r.members(raw)
		t.Approval = &Approval{ID: r.str(a["id"]), Reason: r.maybe(a["reason"])}
		if raw, ok := a["approved"]; ok {
			approved := r.flag(raw)
			t.Approval.Approved = &approved
		}
	}
	return t
}
