package fold

import "github.com/tailrace/tailrace/chunk"

// OpenCalls returns the calls without an outcome that a record may still complete, with the names of their tools, oldest first.
func (s Snapshot) OpenCalls() []Call {
	var out []Call
	for i := range s.messages.open {
		m := &s.messages.open[i]
		for j := range m.parts {
			if !s.messages.isOpenCall(m, j) {
				continue
			}
			t := m.parts[j].tool
			c := Call{ID: t.ID, ToolName: t.Name, Input: t.Input}
			if t.Approval != nil {
				c.ApprovalID = t.Approval.ID
				c.Approved = t.Approval.Approved != nil && *t.Approval.Approved
			}
			for k := range m.children {
				if m.children[k].CallID == t.ID && m.children[k].Status == ChildRunning {
					c.Child = &m.children[k]
				}
			}
			out = append(out, c)
		}
	}
	return out
}

// isOpenCall reports whether part j of an open message is a call without an outcome that a record may still complete.
func (h *history) isOpenCall(m *message, j int) bool {
	t := m.parts[j].tool
	return t != nil && !t.State.hasOutcome() && h.locations()[t.ID] == callLocation{index: m.index, part: m.sealed + j, known: true}
}

// RunningChildren returns the sub-agents of this turn and of the previous one that have not ended, oldest first. It does not
// need the finished messages.
func (s Snapshot) RunningChildren() []Child {
	var out []Child
	for i := range s.messages.open {
		for _, c := range s.messages.open[i].children {
			if c.Status == ChildRunning {
				out = append(out, c)
			}
		}
	}
	return out
}

// Call is a tool call without an outcome.
type Call struct {
	ID         string
	ToolName   string
	Input      chunk.Value // nil while it is streaming
	ApprovalID string      // of a call that requested approval, "" otherwise
	Approved   bool        // the call was approved
	Child      *Child      // the sub-agent that is running for it, nil if there is none
}
