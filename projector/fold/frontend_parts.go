package fold

import (
	"bytes"
	"strconv"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk/guard"
)

// shownParts makes the parts of a message those that a client of the AI SDK has
// built of the live stream, or else a page that is loaded anew shows another
// message than the one beside it, and what it posts is not what was sent.
type shownParts struct {
	calls map[string]bool // ids of the calls in the message
	data  map[string]int  // places of the data parts that have an id
}

func newShown() shownParts { return shownParts{calls: map[string]bool{}, data: map[string]int{}} }

// add appends a part to those of the message before it.
func (s *shownParts) add(parts []chunk.Value, p *part) []chunk.Value {
	if p.kind == toolPart {
		t := s.tool(*p.tool)
		return append(parts, guard.Append(nil, t.append(nil)))
	}
	text := chunk.Value(guard.Append(nil, appendPart(nil, p)))
	id, ok := dataID(p)
	if !ok {
		return append(parts, text)
	}
	if at, again := s.data[id]; again {
		parts[at] = text // the client gives a part of the same id its new value
		return parts
	}
	s.data[id] = len(parts)
	return append(parts, text)
}

// dataID is the id of a data part that has one.
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

// tool is a call as the client has it. A call whose id was used before in the
// message has another one there, or the two would be one part.
func (s *shownParts) tool(t tool) tool {
	t.providerExecuted = t.providerExecuted || ours(&t)
	t.toHistory()
	id := t.callID
	for n := 2; s.calls[t.callID]; n++ {
		t.callID = id + "_" + strconv.Itoa(n)
	}
	s.calls[t.callID] = true
	return t
}

// toHistory makes a call one of which the SDK allows that a history has it,
// spec/aisdk.md section 4: an approval only where the state has one, and decided
// as the state says, an input in every state that comes after it. What is stored
// may be otherwise: a call that was abandoned while a person was asked, one whose
// arguments streamed once more, one that ended before its arguments did.
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

// ours reports whether a call is known to be one that our side runs: it needed an
// approval. The flag keeps clients from running it themselves.
func ours(t *tool) bool {
	return t.state == approvalRequested || t.state == approvalResponded || t.state == outputDenied
}
