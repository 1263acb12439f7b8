package anthropic

import (
	"cmp"
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
)

// agent is the agent of the run, or a sub-agent.
type agent struct {
	dialect.Agent

	m        *message // the latest one, nil before the first
	sources  int
	above    *agent // the parent of a sub-agent
	level    int
	children []*agent // that have not ended
}

// maxLevel bounds the levels of sub-agents. The messages of a deeper one are those of its parent.
const maxLevel = 32

// agentOf returns the agent of a message of the SDK. The first one of a sub-agent writes its start; one that has ended starts again.
func (t *translator) agentOf(o *dialect.Object) *agent {
	id, ok := o.Text("parent_tool_use_id")
	if !ok {
		return t.root
	}
	c := t.agents[id]
	if c != nil && !c.Ended {
		return c
	}
	above, kind := t.root, o.Or("subagent_type", "")
	switch k := t.calls[id]; {
	case k != nil:
		above = k.agent
		if kind == "" {
			kind = dialect.Read(k.input).PeekText("subagent_type")
		}
	case c != nil:
		above = c.above
	}
	if kind == "" && c != nil {
		kind = c.Type
	}
	above = above.live()
	if child := newChild(above, id, kind); child != nil {
		t.agents[id] = child
		return child
	}
	o.Unread("parent_tool_use_id")
	return above
}

// live returns the agent, or the first one above it that has not ended.
func (a *agent) live() *agent {
	for a.Ended && a.above != nil {
		a = a.above
	}
	return a
}

// newChild starts a sub-agent, whose session has the id of the call. It returns nil if the log cannot have the sub-agent.
func newChild(above *agent, id, kind string) *agent {
	of, valid := above.Child(id, cmp.Or(kind, "agent"), id)
	if !valid || above.level == maxLevel {
		return nil
	}
	child := &agent{Agent: of, above: above, level: above.level + 1}
	above.children = append(above.children, child)
	child.Begin()
	return child
}

// endChild ends the sub-agent of a call, if it has one that runs.
func (t *translator) endChild(id string, failure *chunk.ErrorDetail, result chunk.Value) {
	if c := t.agents[id]; c != nil && !c.Ended {
		t.end(c, failure, result)
	}
}

func (t *translator) end(c *agent, failure *chunk.ErrorDetail, result chunk.Value) {
	t.closeChildren(c)
	t.finish(c)
	c.End(failure, nil, result)
	c.m = nil
	c.above.children = slices.DeleteFunc(c.above.children, func(o *agent) bool { return o == c })
}

// closeChildren ends the sub-agents of an agent that ends before them.
func (t *translator) closeChildren(a *agent) {
	for _, c := range slices.Backward(slices.Clone(a.children)) {
		t.end(c, &chunk.ErrorDetail{Message: "the agent ended before its sub-agent"}, nil)
	}
}
