package codec

import (
	"strings"
	"testing"
)

const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// A traceparent survives a message in binary and in structured mode, beside an InputPosition.
func TestTraceParentOfAMessage(t *testing.T) {
	m := EncodeJSON(Envelope{Session: session, Epoch: 1, Ordinal: 2}, Header{Type: "text_delta"}, []byte(body))
	m.SetTraceParent(parent)
	m.SetInput(InputPosition{Run: "r", Line: 1})
	if got := TraceParentOf(m.Header, m.Data); got != parent {
		t.Errorf("binary: got %q", got)
	}
	if in, ok := InputOf(m.Header, m.Data); !ok || in.Line != 1 {
		t.Errorf("input: got %+v", in)
	}
	if _, err := Decode(Stored{Session: session, Seq: 1, Header: m.Header, Data: m.Data}); err != nil {
		t.Error(err)
	}
	event := structured(`,"data":` + body + `,"traceparent":"` + parent + `"`)
	if got := TraceParentOf(nil, event); got != parent {
		t.Errorf("structured: got %q", got)
	}
	if _, err := Decode(Stored{Session: session, Seq: 1, Data: event}); err != nil {
		t.Error(err)
	}
}

// A text that cannot be the attribute is left out, and one that another program has written is not returned.
func TestMalformedTraceParents(t *testing.T) {
	for _, s := range []string{"", "a b", "a\r\nce-id: 9-9", "é", strings.Repeat("0", 129)} {
		m := EncodeJSON(Envelope{Session: session, Epoch: 1, Ordinal: 2}, Header{Type: "text_delta"}, []byte(body))
		if m.SetTraceParent(s); len(m.Header[headerTraceParent]) != 0 {
			t.Errorf("%q is an attribute", s)
		}
		if got := TraceParentOf(map[string][]string{headerTraceParent: {s}}, nil); got != "" {
			t.Errorf("%q is read as %q", s, got)
		}
	}
	for name, h := range map[string]map[string][]string{
		"none": {}, "two": {"ce-traceparent": {parent, parent}}, "no event": {"content-type": {"application/cloudevents+json"}}, "number": {"content-type": {"application/cloudevents+json"}},
	} {
		if got := TraceParentOf(h, []byte(`{"traceparent":1}`)); got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := TraceParentOf(map[string][]string{"CE-TraceParent": {parent}}, nil); got != parent {
		t.Errorf("another case: %q", got)
	}
}
