package structured

import (
	"github.com/go-json-experiment/json/jsontext"
)

// AppendView appends the stream as readers of the dialect know it:
//
//	{"streamId":"s","dataType":"report","status":"streaming","schemaId":"…","schemaVersion":"…","id":"…","node":"…","data":{…}}
//
// Labels that are empty are left out, but for the data type. A slot that was
// skipped reads null; a member without a value is left out, and so is data.
// Nothing tells such a null from a real one: use State.AppendJSON to go on from.
func (s *Stream) AppendView(dst []byte) []byte {
	dst = s.appendHead(append(dst, '{'))
	if s.data != nil {
		dst = append(dst, `,"data":`...)
		dst = s.data.append(dst, false)
	}
	return append(dst, '}')
}

// AppendData appends the value as AppendView shows it; null when there is none.
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

// append writes the tree. With all, a member that is unset is written as null
// too, so that every place of the tree is in the text.
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

// appendText writes WTF-8 as a JSON string: a lone surrogate becomes an escape
// again.
func appendText[S string | []byte](dst []byte, s S) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for len(s) > 0 {
		n := untilSurrogate(s)
		quoted, _ := jsontext.AppendQuote(nil, s[:n]) // fails on text that is no UTF-8 only
		dst = append(dst, quoted[1:len(quoted)-1]...)
		if s = s[n:]; len(s) > 0 {
			dst = append(dst, '\\', 'u', 'd', hex[s[1]>>2&0xF], hex[s[1]<<2&0xC|s[2]>>4&3], hex[s[2]&0xF])
			s = s[3:]
		}
	}
	return append(dst, '"')
}

// untilSurrogate is how much of WTF-8 is UTF-8.
func untilSurrogate[S string | []byte](s S) int {
	for i := range len(s) {
		if s[i] == 0xED && i+2 < len(s) && s[i+1] >= 0xA0 {
			return i
		}
	}
	return len(s)
}
