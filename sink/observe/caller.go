package observe

import (
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sink/row"
)

// caller is what the first record of a sub-agent's run takes from other sessions of its tree.
type caller struct {
	parent          parent
	turnID, traceID string
	owner           *chunk.Principal
}

// parent is the call that a sub-agent runs for.
type parent struct {
	session, call string
	id, spanID    string // of the row of the call, "" if it is not open
	depth         int64  // of the sub-agent
}

// of reports whether both are for one call.
func (p parent) of(q parent) bool { return p.session == q.session && p.call == q.call }

// callerOf returns the caller of a sub-agent: its parent, as far as the tree has it, or the turn of the root.
func (f *Folder) callerOf(s *session, of *chunk.Parent) *caller {
	c := &caller{}
	if of != nil {
		c.parent = parent{session: row.Text(of.SessionID), call: row.Text(of.CallID), depth: 1}
		if p := f.tree.sessions[of.SessionID]; p != nil && p != s {
			c.parent.depth = p.parent.depth + 1
			c.turnID, c.traceID, c.owner = p.turnID, p.traceID, p.owner
			if call := p.openCall(of.CallID); call != nil {
				c.parent.id, c.parent.spanID = call.row.ID, call.row.SpanID
				c.turnID, c.traceID = call.row.TurnID, call.row.TraceID
			}
		}
	}
	if root := f.tree.sessions[s.key.Root]; root != nil && c.traceID == "" {
		c.turnID, c.traceID, c.owner = root.turnID, root.traceID, root.owner
	}
	return c
}
