package aisdk

import (
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/projector/fold"
)

// uiParts converts the parts of a message to those that a client of the AI SDK has built from the live stream. Otherwise a page
// that is reloaded would show another message than a page that followed the stream, and would post other parts.
type uiParts struct {
	calls  map[string]bool // ids of the calls in the message
	data   map[dataKey]int // indexes of the data parts with an id
	agents *inlineAgents
	buf    []byte
}

// dataKey identifies a data part.
type dataKey struct{ name, id string }

// add appends a part to the previous parts of the message.
func (s *uiParts) add(parts []chunk.Value, p *fold.Part) []chunk.Value {
	if p.Call != nil {
		c := s.call(*p.Call)
		s.buf = c.AppendJSON(s.buf[:0])
		return append(parts, AppendSanitized(nil, s.buf))
	}
	s.buf = p.AppendJSON(s.buf[:0])
	if p.Data != nil && p.Data.ID != nil {
		return s.addData(parts, p.Data.Name, *p.Data.ID)
	}
	return append(parts, AppendSanitized(nil, s.buf))
}

// addData appends the data part in the buffer, or replaces that with the same name and id, as the client does.
func (s *uiParts) addData(parts []chunk.Value, name, id string) []chunk.Value {
	text := chunk.Value(AppendSanitized(nil, s.buf))
	key := dataKey{name, id}
	if at, again := s.data[key]; again {
		parts[at] = text
		return parts
	}
	s.data[key] = len(parts)
	return append(parts, text)
}

// call returns a call as the client has it.
func (s *uiParts) call(t fold.ToolCall) fold.ToolCall {
	t.ProviderExecuted = t.ProviderExecuted || runsServerSide(&t)
	toHistory(&t)
	t.ID = dialect.ShownCallID(s.calls, t.ID)
	return t
}

// toHistory converts a call to a form that the SDK accepts in a history, docs/protocol/aisdk.md#aisdk-4: an approval only in states that have one, with the
// decision of the state, and an input in every later state. The stored call may differ: a call that was abandoned while it waited for an approval, one whose
// arguments were streamed again, one that ended before its arguments did.
func toHistory(t *fold.ToolCall) {
	switch t.State {
	case fold.CallStreaming, fold.CallOpen:
		t.Approval = nil
	case fold.CallDone, fold.CallFailed:
		if t.Approval != nil && (t.Approval.Approved == nil || !*t.Approval.Approved) {
			t.Approval = nil
		}
	}
	if t.Input == nil && t.State != fold.CallStreaming && t.State != fold.CallFailed {
		t.Input = emptyInput
	}
}

// runsServerSide reports whether a call is known to run on the server: it needed an approval. The flag prevents clients from
// executing it.
func runsServerSide(t *fold.ToolCall) bool {
	return t.State == fold.CallAwaitingApproval || t.State == fold.CallApproved || t.State == fold.CallDenied
}
