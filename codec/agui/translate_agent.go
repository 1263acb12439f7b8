package agui

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

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
func (t *translator) subagentStarted(e event) bool {
	id, ok := e.Text("subagentRunId")
	name, named := e.Text("name")
	session := sessionOf(id)
	if !ok || !named || session == t.root.Session {
		return false
	}
	if a := t.agents[id]; a != nil && !a.Ended {
		a.Resume()
		return true
	}
	parent := t.root
	if p := t.agents[e.Or("parentSubagentRunId", "")]; p != nil && !p.Ended {
		parent = p
	}
	child, valid := parent.Child(session, name, e.Or("parentToolCallId", ""))
	if !valid {
		return false
	}
	t.start(parent, child.CallID)
	a := newSource(id, child)
	t.agents[id] = a
	t.list = append(t.list, a)
	a.Begin()
	return true
}

func (t *translator) subagentEnded(e event) bool {
	id, _ := e.Text("subagentRunId")
	a := t.agents[id]
	if a == nil || a.Ended {
		return false
	}
	t.endChunk(a)
	if e.kind == "SUBAGENT_ERROR" {
		t.concludeAgent(a, &chunk.ErrorDetail{Message: e.Or("message", "the sub-agent failed"), Code: e.Maybe("code")}, nil)
		return true
	}
	if outcome, _ := e.Object.Object("outcome").Text("type"); outcome == "suspended" {
		t.endStep(a, nil) // it is paused with the run: RUN_FINISHED has its questions, which a paused session does not take
		return true
	}
	t.concludeAgent(a, nil, e.Value("result"))
	return true
}

// concludeAgent ends a sub-agent, those that it started first, and reports its end to the parent.
func (t *translator) concludeAgent(a *source, f *chunk.ErrorDetail, result chunk.Value) {
	for _, c := range slices.Backward(slices.Clone(t.list)) {
		if c.Parent == &a.Agent && !c.Ended {
			t.concludeAgent(c, f, nil)
		}
	}
	t.endStep(a, nil)
	t.list = slices.DeleteFunc(t.list, func(s *source) bool { return s == a })
	a.End(f, nil, result)
	// The memory of a long run must not grow with its sub-agents; a later start with the id is another invocation.
	a.messages, a.calls, a.seen = nil, nil, nil
	delete(t.agents, a.id)
}
