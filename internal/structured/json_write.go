package structured

import (
	"github.com/tailrace/tailrace/internal/rawjson"
)

// AppendShown appends the stream as clients are shown it:
//
//	{"streamId":"s","dataType":"report","status":"streaming","schemaId":"…","schemaVersion":"…","id":"…","node":"…","data":{…}}
//
// Empty labels are left out, except the data type. A slot that was skipped reads null; a member without a value is left out, and so is data. Such a null
// cannot be distinguished from a real one: use State.AppendJSON to save a state.
func (s *Stream) AppendShown(dst []byte) []byte {
	dst = s.appendHead(append(dst, '{'))
	if s.data != nil {
		dst = append(dst, `,"data":`...)
		dst = s.data.append(dst, false)
	}
	return append(dst, '}')
}

// AppendValue appends the stream as a message has it:
//
//	{"dataType":"report","status":"final","data":{…},"schemaId":"…","schemaVersion":"…"}
//
// An empty id or version of the schema is left out.
func (s *Stream) AppendValue(dst []byte) []byte {
	o := rawjson.Begin(dst)
	o.String("dataType", s.Labels.DataType)
	o.String("status", s.status.String())
	o.Name("data")
	o.Dst = s.AppendData(o.Dst)
	o.Text("schemaId", s.Labels.SchemaID)
	o.Text("schemaVersion", s.Labels.SchemaVersion)
	return o.End()
}

// AppendData appends the value as AppendShown writes it, null if there is none.
func (s *Stream) AppendData(dst []byte) []byte { return s.data.append(dst, false) }

func (s *Stream) appendHead(dst []byte) []byte {
	dst = appendText(append(dst, `"streamId":`...), s.Labels.StreamID)
	dst = appendText(append(dst, `,"dataType":`...), s.Labels.DataType)
	dst = appendText(append(dst, `,"status":`...), s.status.String())
	for _, l := range []struct{ name, value string }{
		{`,"schemaId":`, s.Labels.SchemaID},
		{`,"schemaVersion":`, s.Labels.SchemaVersion},
		{`,"id":`, s.Labels.ID},
		{`,"node":`, s.Labels.Node},
	} {
		if l.value != "" {
			dst = appendText(append(dst, l.name...), l.value)
		}
	}
	return dst
}

// append appends the tree. With all, an unset member is written as null, so that every place of the tree is in the text.
func (n *node) append(dst []byte, all bool) []byte {
	if n == nil {
		return append(dst, "null"...)
	}
	switch n.kind {
	case null:
		return append(dst, "null"...)
	case boolFalse:
		return append(dst, "false"...)
	case boolTrue:
		return append(dst, "true"...)
	case number:
		return append(dst, n.text...)
	case text:
		return appendText(dst, n.text)
	}
	open, end := byte('['), byte(']')
	if n.kind == object {
		open, end = '{', '}'
	}
	dst = append(dst, open)
	empty := true
	for i, item := range n.items {
		if n.kind == object && item == nil && !all {
			continue
		}
		if !empty {
			dst = append(dst, ',')
		}
		empty = false
		if n.kind == object {
			dst = append(appendText(dst, n.names[i]), ':')
		}
		dst = item.append(dst, all)
	}
	return append(dst, end)
}

// appendText appends WTF-8 as a JSON string, in the spelling of chunks.
func appendText[S string | []byte](dst []byte, s S) []byte {
	dst, _ = rawjson.AppendQuotedChunk(dst, s)
	return dst
}
