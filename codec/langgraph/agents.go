package langgraph

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// agent is the root graph, or a sub-graph.
type agent struct {
	dialect.Agent

	m        *message // the latest one, nil before the first
	sources  int
	above    *agent // the parent of a sub-agent
	level    int
	children []*agent // that have not ended
}

// node is a node that runs: what its lifecycle says in case it is a graph, and the calls of tools that it runs.
type node struct {
	name, cause string
	calls       []string
}

// maxLevel bounds the levels of sub-agents. The messages of a deeper one are those of its parent.
const maxLevel = 32

// maxNodes bounds the nodes that run at a time. The lifecycle of a further one is not known.
const maxNodes = 4096

// namespaceOf returns the namespace of an event, empty for that of the root graph.
func namespaceOf(p *dialect.Object) (ns []string) {
	list := p.Peek("namespace")
	if rawjson.Kind(list) != '[' {
		return nil
	}
	for v := range rawjson.Elements(list) {
		s, ok := dialect.Text(v)
		if !ok {
			return nil
		}
		ns = append(ns, s)
	}
	return ns
}

// keyOf returns the key of a namespace. LangGraph has the same form.
func keyOf(ns []string) string { return strings.Join(ns, "|") }

// nameOf returns the name of the node in a segment, which is "name:task", and the id of its task.
func nameOf(segment string) (name, task string) {
	i := strings.LastIndexByte(segment, ':')
	if i < 0 {
		return segment, segment
	}
	return segment[:i], segment[i+1:]
}

// agentOf returns the agent of an event. The first event that shows that its namespace is a graph starts the sub-agent.
func (t *translator) agentOf(method string, p *dialect.Object) *agent {
	ns := namespaceOf(p)
	if len(ns) == 0 {
		return t.root
	}
	above := ns[:len(ns)-1]
	switch method {
	case "values", "updates", "checkpoints", "tasks":
		return t.child(ns)
	case "messages":
		name, _ := nameOf(ns[len(ns)-1])
		if a := t.agents[keyOf(ns)]; a != nil && !a.Ended {
			return a
		} else if of := p.PeekText("node"); of != "" && of != name {
			return t.child(ns)
		}
		a := t.child(above)
		if m := a.m; m != nil && !m.ended && m.namespace != keyOf(ns) {
			return t.child(ns) // two nodes send messages at the same time
		}
		return a
	case "tools":
		d := p.Object("data")
		if k := t.calls[d.PeekText(either(d, "tool_call_id"))]; k != nil {
			return k.agent.live()
		}
		return t.child(above)
	case "lifecycle":
		t.child(above)
	}
	for ; len(ns) > 0; ns = ns[:len(ns)-1] {
		if a := t.agents[keyOf(ns)]; a != nil {
			return a.live()
		}
	}
	return t.root
}

// child returns the agent of the graph of a namespace, and starts it if it has not run yet.
func (t *translator) child(ns []string) *agent {
	a := t.root
	for i, segment := range ns[:min(len(ns), maxLevel)] {
		key := keyOf(ns[:i+1])
		c := t.agents[key]
		if c == nil {
			c = t.start(a, key, segment)
		}
		if c == nil || c.Ended {
			return a
		}
		a = c
	}
	return a
}

// start starts a sub-agent. It returns nil if the log cannot have it. Its session has the id of the task of its node.
func (t *translator) start(above *agent, key, segment string) *agent {
	name, id := nameOf(segment)
	if segment == id && above.Parent != nil {
		id = above.Session + "." + segment
	}
	n := cmp.Or(t.nodes[key], &node{})
	call := n.cause
	if call == "" && len(n.calls) == 1 {
		call = n.calls[0]
	}
	kind := cmp.Or(n.name, name, "agent")
	if k := t.calls[call]; k != nil && k.agent != above {
		call = ""
	} else if k != nil && n.cause == "" { // the name of the node is that of all its tools
		kind = k.name
	}
	for _, other := range t.agents {
		if other.Session == id && !other.Ended {
			return nil
		}
	}
	of, valid := above.Child(id, kind, call)
	if !valid || above.Ended || above.level == maxLevel {
		return nil
	}
	c := &agent{Agent: of, above: above, level: above.level + 1}
	above.children = append(above.children, c)
	t.agents[key] = c
	c.Begin()
	return c
}

// live returns the agent, or the first one above it that has not ended.
func (a *agent) live() *agent {
	for a.Ended && a.above != nil {
		a = a.above
	}
	return a
}

func (t *translator) end(c *agent, failure *chunk.ErrorDetail, result chunk.Value) {
	t.closeChildren(c)
	t.finish(c)
	c.End(failure, nil, result)
	c.m = nil
	c.above.children = slices.DeleteFunc(c.above.children, func(o *agent) bool { return o == c })
}

// closeChildren ends the sub-agents of an agent that ends before them. One that waits with the run has not failed.
func (t *translator) closeChildren(a *agent) {
	var failure *chunk.ErrorDetail
	if t.waits == nil && !t.stopped {
		failure = &chunk.ErrorDetail{Message: "the agent ended before its sub-agent"}
	}
	for _, c := range slices.Backward(slices.Clone(a.children)) {
		t.end(c, failure, nil)
	}
}

// lifecycle reads the status of a graph or a node.
func (t *translator) lifecycle(p, d *dialect.Object) bool {
	ns, event := namespaceOf(p), d.Or("event", "")
	key := keyOf(ns)
	var failure *chunk.ErrorDetail
	switch event {
	case "started", "running":
	case "failed":
		failure = &chunk.ErrorDetail{Message: d.Or("error", "the graph failed")}
	case "completed", "interrupted":
	default:
		d.Unread("event")
		return false
	}
	isStart := event == "started" || event == "running"
	switch c := t.agents[key]; {
	case len(ns) == 0 && isStart:
		if t.failure != nil { // the graph runs again
			t.root.EmitValid(chunk.Error{Error: t.failure.Message, ErrorDetail: t.failure, Recoverable: true})
		}
		t.begin()
		t.known = true
	case len(ns) == 0: // of two ends the worse one counts
		if t.failure != nil && failure != nil {
			d.Unread("error")
			return false
		}
		t.known, t.over, t.stopped, t.failure = true, true, t.stopped || event == "interrupted", cmp.Or(t.failure, failure)
	case isStart && (c == nil || c.Ended):
		delete(t.agents, key) // one that has ended starts again
		if len(t.nodes) < maxNodes {
			cause := d.Object("cause")
			n := &node{name: d.PeekText(either(d, "graph_name")), cause: cause.PeekText(either(cause, "tool_call_id"))}
			t.nodes[key] = n
			if n.cause != "" {
				t.child(ns)
			}
		}
	case isStart:
	default:
		delete(t.nodes, key)
		if c != nil && !c.Ended {
			t.end(c, failure, nil)
		} else if failure != nil {
			return false
		}
	}
	return true
}
