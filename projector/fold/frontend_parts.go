package fold

import (
	"bytes"
	"strconv"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
)

// uiParts converts the parts of a message to those that a client of the AI SDK has built from the live stream. Otherwise a page
// that is reloaded would show another message than a page that followed the stream, and would post other parts.
type uiParts struct {
	calls map[string]bool // ids of the calls in the message
	data  map[string]int  // indexes of the data parts with an id
}

func newUIParts() uiParts { return uiParts{calls: map[string]bool{}, data: map[string]int{}} }

// add appends a part to the previous parts of the message.
func (s *uiParts) add(parts []chunk.Value, p *part) []chunk.Value {
	if p.kind == toolPart {
		t := s.tool(*p.tool)
		return append(parts, aisdk.AppendSanitized(nil, t.append(nil)))
	}
	text := chunk.Value(aisdk.AppendSanitized(nil, appendPart(nil, p)))
	id, ok := dataID(p)
	if !ok {
		return append(parts, text)
	}
	if at, again := s.data[id]; again {
		parts[at] = text // the client replaces the value of a part with the same id
		return parts
	}
	s.data[id] = len(parts)
	return append(parts, text)
}

// dataID returns the id of a data part, if it has one.
func dataID(p *part) (string, bool) {
	if p.kind != rawPart || !bytes.HasPrefix(p.raw, []byte(`{"type":"data-structured",`)) {
		return "", false
	}
	m, err := members(p.raw)
	if err != nil {
		return "", false
	}
	id, there := m["id"]
	return string(id), there
}

// tool returns a call as the client has it. If the message has an earlier call with the same id, the call gets another id,
// because the client would merge them.
func (s *uiParts) tool(t tool) tool {
	t.providerExecuted = t.providerExecuted || runsServerSide(&t)
	t.toHistory()
	id := t.callID
	for n := 2; s.calls[t.callID]; n++ {
		t.callID = id + "_" + strconv.Itoa(n)
	}
	s.calls[t.callID] = true
	return t
}

// toHistory converts a call to a form that the SDK accepts in a history, spec/aisdk.md section 4: an approval only in states
// that have one, with the decision of the state, and an input in every later state. The stored call may differ: a call that was
// abandoned while it waited for an approval, one whose arguments were streamed again, one that ended before its arguments did.
func (t *tool) toHistory() {
	switch t.state {
	case inputStreaming, inputAvailable:
		t.approval = nil
	case outputAvailable, outputError:
		if t.approval != nil && (t.approval.approved == nil || !*t.approval.approved) {
			t.approval = nil
		}
	}
	if t.input == nil && t.state != inputStreaming && t.state != outputError {
		t.input = emptyInput
	}
}

// runsServerSide reports whether a call is known to run on the server: it needed an approval. The flag prevents clients from
// executing it.
func runsServerSide(t *tool) bool {
	return t.state == approvalRequested || t.state == approvalResponded || t.state == outputDenied
}
