package agui

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/subjects"
)

// sessionOf returns the session of a sub-agent: its id, or one that is made from it if that is not valid for a session.
func sessionOf(id string) string {
	if subjects.CheckID("session", id) == nil {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "agui-" + hex.EncodeToString(sum[:16])
}

// subagentStarted begins a sub-agent. One that was suspended continues.
func (t *Translator) subagentStarted(e event) bool {
	id, ok := e.text("subagentRunId")
	name, named := e.text("name")
	session := sessionOf(id)
	if !ok || !named || session == t.root.session {
		return false
	}
	if a := t.agents[id]; a != nil && !a.ended {
		if a.paused {
			a.paused = false
			t.emit(a, chunk.StreamActive{})
		}
		return true
	}
	parent := t.root
	if p := t.agents[e.or("parentSubagentRunId", "")]; p != nil && !p.ended {
		parent = p
	}
	a := newSource(session, name)
	a.id, a.parent, a.callID = id, parent, e.or("parentToolCallId", "")
	begin := chunk.SubagentStart{SubAgentType: name, SubSessionID: session, CallID: a.callID}
	if (chunk.Chunk{AgentID: parent.session, AgentType: parent.kind, Step: parent.step, Body: begin}).Validate() != nil {
		return false
	}
	t.start(parent, a.callID)
	t.agents[id] = a
	t.list = append(t.list, a)
	t.emit(parent, begin)
	return true
}

func (t *Translator) subagentEnded(e event) bool {
	id, _ := e.text("subagentRunId")
	a := t.agents[id]
	if a == nil || a.ended {
		return false
	}
	t.endChunk(a)
	if e.kind == "SUBAGENT_ERROR" {
		t.concludeAgent(a, &failure{text: e.or("message", "the sub-agent failed"), code: e.maybe("code")}, nil)
		return true
	}
	if outcome, _ := e.object.object("outcome").text("type"); outcome == "suspended" {
		t.endStep(a, nil) // it is paused with the run: RUN_FINISHED has its questions, which a paused session does not take
		return true
	}
	t.concludeAgent(a, nil, e.object["result"])
	return true
}

// concludeAgent ends a sub-agent, those that it started first, and reports its end to the parent.
func (t *Translator) concludeAgent(a *source, f *failure, result chunk.Value) {
	for _, c := range slices.Backward(slices.Clone(t.list)) {
		if c.parent == a && !c.ended {
			t.concludeAgent(c, f, nil)
		}
	}
	t.endStep(a, nil)
	a.ended = true
	t.list = slices.DeleteFunc(t.list, func(s *source) bool { return s == a })
	if f != nil {
		t.emit(a, chunk.StreamFailed{Error: f.text, ErrorDetail: f.detail()})
		result = append(append(chunk.Value(`{"error":`), quote(f.text)...), '}')
	} else {
		t.emit(a, chunk.StreamEnd{StreamID: a.session})
		if result == nil {
			result = quote(strings.Join(a.text, ""))
		}
	}
	t.emitValid(a.parent, chunk.SubagentEnd{SubAgentType: a.kind, SubSessionID: a.session, CallID: a.callID, Result: result})
	// The memory of a long run must not grow with its sub-agents; a later start with the id is another invocation.
	a.messages, a.calls, a.seen, a.text = nil, nil, nil, nil
	delete(t.agents, a.id)
}
