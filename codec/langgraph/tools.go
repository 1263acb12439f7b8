package langgraph

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// call is a call of a tool without a result.
type call struct {
	agent    *agent
	id, name string
	input    chunk.Value
	provider bool // the endpoint of the model runs it
	started  bool // tool_start was written
	asked    bool // an approval was asked for
}

func (k *call) by() []chunk.Member {
	if k.provider {
		return []chunk.Member{chunk.RunBy(true)}
	}
	return nil
}

// arguments writes a piece of the arguments of a call, as soon as its id and its tool are known.
func (t *translator) arguments(a *agent, b *block, piece string) {
	if b.data.Len()+len(piece) <= maxData {
		b.data.WriteString(piece)
	}
	if b.call == nil && b.id != "" && b.name != "" {
		k := &call{agent: a, id: b.id, name: b.name, provider: b.kind == kindServer}
		if !a.EmitValid(chunk.ToolArgStreamStart{ToolCallID: k.id, ToolName: k.name}, k.by()...) {
			b.id = ""
			return
		}
		b.call, piece = k, b.data.String()
	}
	if b.call != nil && piece != "" {
		a.EmitValid(chunk.ToolArgStreamDelta{ToolCallID: b.call.id, Delta: piece})
	}
}

// callEnd starts a call, or rejects one whose arguments are not JSON. c is the whole call, nil if it was cut off.
func (t *translator) callEnd(a *agent, b *block, c *dialect.Object) {
	k := b.call
	if k != nil {
		a.EmitValid(chunk.ToolArgStreamEnd{ToolCallID: k.id})
	} else {
		k = &call{agent: a, provider: b.kind == kindServer}
		k.id = cmp.Or(c.Or("id", b.id), fmt.Sprintf("call_%d_%d", a.Step, len(t.calls)))
		k.name = cmp.Or(c.Or("name", b.name), "unknown")
		if b.data.Len() > 0 {
			b.id, b.name = k.id, k.name
			t.arguments(a, b, "")
			if b.call == nil {
				a.Keep("tool-call-delta", dialect.Quote(b.data.String()))
			} else {
				a.EmitValid(chunk.ToolArgStreamEnd{ToolCallID: k.id})
			}
		}
	}
	for member, value := range map[string]string{"id": k.id, "name": k.name} {
		if c.PeekText(member) == value {
			c.Get(member)
		}
	}
	a.m.called = true
	kind := c.PeekText("type")
	if args := c.Value("args"); args != nil && kind != "invalid_tool_call" && rawjson.Kind(args) != '"' {
		k.input = slices.Clone(args)
		if t.startCall(k) {
			c.Text("type")
			c.Get("args")
			return
		}
	}
	e := chunk.ToolInputError{ToolCallID: k.id, ToolName: k.name, Error: cmp.Or(c.Or("error", ""), "the arguments are not complete, not valid JSON, or too long")}
	partial := slices.Clone(c.Value("args"))
	if partial != nil && dialect.TextAt(partial) != b.data.String() {
		e.PartialInput = &partial
	}
	c.Text("type")
	c.Get("args")
	if !a.EmitValid(e, k.by()...) {
		a.KeepCall(k.id, k.name, partial)
	}
}

// startCall starts a call, once.
func (t *translator) startCall(k *call, more ...chunk.Member) bool {
	if old := t.calls[k.id]; old != nil && old.started {
		return same(old.input, k.input) && old.name == k.name
	}
	if !k.agent.EmitValid(chunk.ToolStart{ToolCallID: k.id, ToolName: k.name, Arguments: dialect.Arguments(k.input)}, append(k.by(), more...)...) {
		return false
	}
	k.started, t.calls[k.id] = true, k
	return true
}

// tool translates an event of a tool that LangGraph runs.
func (t *translator) tool(a *agent, p, d *dialect.Object) bool {
	idName, nameName := either(d, "tool_call_id"), either(d, "tool_name")
	id, name := d.PeekText(idName), d.PeekText(nameName)
	if id == "" {
		return false
	}
	k, n := t.calls[id], t.nodes[keyOf(namespaceOf(p))]
	understood := false
	switch event := d.PeekText("event"); event {
	case "tool-started":
		understood = t.toolStarted(a, k, n, id, name, d)
	case "tool-finished", "tool-error":
		if n != nil {
			n.calls = slices.DeleteFunc(n.calls, func(c string) bool { return c == id })
		}
		of := cmp.Or(name, "unknown")
		if k != nil {
			of = k.name
		}
		understood = t.toolEnded(a, id, of, event == "tool-error", d)
	}
	if understood {
		d.Get(idName)
		if k == nil || k.name == name {
			d.Text(nameName) // another value is kept
		}
	}
	return understood
}

// toolStarted starts a call that no message has.
func (t *translator) toolStarted(a *agent, k *call, n *node, id, name string, d *dialect.Object) bool {
	input := d.Value("input")
	if s, ok := dialect.Text(input); ok {
		if parsed, err := dialect.CheckValue([]byte(s)); err == nil && rawjson.Kind(parsed) == '{' {
			input = parsed
		}
	}
	if k == nil {
		k = &call{agent: a, id: id, name: cmp.Or(name, "unknown"), input: slices.Clone(input)}
		if !t.startCall(k) {
			return false
		}
	}
	if same(k.input, input) {
		d.Get("input")
	}
	if n != nil {
		n.calls = append(n.calls, id)
	}
	return true
}

// toolEnded ends a call, and before it the sub-agent that runs for it.
func (t *translator) toolEnded(a *agent, id, name string, failed bool, d *dialect.Object) bool {
	delete(t.calls, id)
	message := d.Or("message", "the tool failed")
	var result chunk.Value
	if !failed {
		result = resultOf(d)
		out := d.Object("output")
		s, isText := dialect.Text(result)
		if isText && cmp.Or(out.Object("kwargs"), out).PeekText("status") == "error" {
			message, failed = s, true
		}
	}
	var failure *chunk.ErrorDetail
	if failed {
		failure = &chunk.ErrorDetail{Message: message}
	}
	for _, c := range slices.Clone(a.children) {
		if c.CallID == id {
			t.end(c, failure, result)
		}
	}
	if failed {
		return a.EmitValid(chunk.ToolOutputError{ToolCallID: id, ToolName: name, Error: message})
	}
	return a.EmitValid(chunk.ToolEnd{ToolCallID: id, ToolName: name, Result: result})
}

// resultOf reads the output of a tool: the content of a message, also of one that LangChain has serialized, or the value itself.
func resultOf(d *dialect.Object) chunk.Value {
	out := d.Object("output")
	if in := out.Object("kwargs"); in.Peek("content") != nil && out.Peek("lc") != nil {
		return in.Get("content")
	}
	if out.PeekText("type") == "tool" && out.Peek("content") != nil {
		return out.Get("content")
	}
	return dialect.OrNull(d.Get("output"))
}

// serverResult writes the result of a call that the endpoint of the model has run.
func (t *translator) serverResult(a *agent, c *dialect.Object) bool {
	id, ok := c.Text(either(c, "tool_call_id"))
	if !ok {
		return false
	}
	end := chunk.ToolEnd{ToolCallID: id, ToolName: "unknown", ProviderExecuted: new(true)}
	if k := t.calls[id]; k != nil {
		end.ToolName = k.name
		delete(t.calls, id)
	}
	if c.PeekText("status") == "error" {
		end.Error = new(cmp.Or(c.Or("output", ""), "the tool failed"))
	} else {
		end.Result = dialect.OrNull(c.Get("output"))
	}
	c.Text("type")
	return a.EmitValid(end)
}

// same reports whether two inputs have the same meaning.
func same(a, b chunk.Value) bool { return dialect.Same(dialect.OrNull(a), dialect.OrNull(b)) }
