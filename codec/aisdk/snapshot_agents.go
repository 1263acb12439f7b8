package aisdk

import (
	"slices"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/turn"
	"github.com/tailrace/tailrace/projector/fold"
)

// inlineAgents has the output of the sub-agents that a snapshot shows as parts of the messages that called them. Nil has none.
//
// Each session is shown once, where the log of its parent has it first: later entries are its end, or another start of the same session.
type inlineAgents struct {
	messages   map[string][]fold.Message // by session, of those that were not shown yet
	clientTool func(name string) bool    // Options.ClientTool
}

// take returns the messages of a sub-agent, and removes them.
func (a *inlineAgents) take(session string) []fold.Message {
	if a == nil {
		return nil
	}
	list := a.messages[session]
	delete(a.messages, session)
	return list
}

// omit removes the sub-agents of a message that is not shown.
func (a *inlineAgents) omit(children []fold.Child) {
	for _, c := range children {
		list := a.take(c.Session)
		for i := range list {
			a.omit(list[i].Children)
		}
	}
}

// isOutput reports whether a message of a sub-agent is shown: its input is the arguments of the call that started it.
func isOutput(m *fold.Message) bool { return m.Role == fold.Assistant && !m.Hidden && !m.Replaced }

// isClient reports whether the browser runs a call of a sub-agent.
func (a *inlineAgents) isClient(t *fold.ToolCall) bool {
	return a.clientTool != nil && !strings.HasPrefix(t.Name, turn.SubAgentTool) && a.clientTool(t.Name)
}

// addMessage appends the parts of a message of an agent: a sub-agent, or "" for the message's own. The output of a sub-agent that it called follows the call,
// or is at the end if the message does not have the call. The records of both interleave, and a snapshot does not have their order.
func (s *uiParts) addMessage(parts []chunk.Value, m *fold.Message, agent string) []chunk.Value {
	var children []fold.Child
	if s.agents != nil {
		children = slices.Clone(m.Children)
	}
	for i := range m.Parts {
		p := &m.Parts[i]
		if agent == "" {
			parts = s.add(parts, p)
		} else {
			parts = s.addInline(parts, *p, agent)
		}
		if p.Call == nil {
			continue
		}
		called := func(c fold.Child) bool { return c.CallID == p.Call.ID }
		if at := slices.IndexFunc(children, called); at >= 0 {
			parts = s.addAgent(parts, children[at].Session)
			children = slices.Delete(children, at, at+1)
		}
	}
	for _, c := range children {
		parts = s.addAgent(parts, c.Session)
	}
	return parts
}

// addAgent appends the output of a sub-agent.
func (s *uiParts) addAgent(parts []chunk.Value, session string) []chunk.Value {
	list := s.agents.take(session)
	for i := range list {
		if m := &list[i]; isOutput(m) {
			parts = s.addMessage(parts, m, session)
		} else {
			s.agents.omit(m.Children)
		}
	}
	return parts
}

// addInline appends a part of a sub-agent in the form of the stream: its ids begin with the session, its steps are not shown, and its texts have ended,
// because a stream that continues the message begins other ones.
func (s *uiParts) addInline(parts []chunk.Value, p fold.Part, agent string) []chunk.Value {
	p.Streaming = false
	switch {
	case p.Kind == fold.PartStepStart:
		return parts
	case p.Call != nil:
		c := *p.Call
		c.ProviderExecuted = c.ProviderExecuted || !s.agents.isClient(&c)
		c.ID = dialect.CallID(agent, c.ID)
		p.Call = &c
	case p.Data != nil && p.Data.ID != nil:
		id := dialect.CallID(agent, *p.Data.ID)
		o := rawjson.Begin(s.buf[:0])
		o.String("type", "data-"+p.Data.Name)
		o.String("id", id)
		o.Raw("data", p.Data.Value)
		s.buf = o.End()
		return s.addData(parts, p.Data.Name, id)
	}
	return s.add(parts, &p)
}
