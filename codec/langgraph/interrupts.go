package langgraph

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
)

const (
	interruptMember = "__interrupt__"       // of the state
	interruptTool   = "langgraph.interrupt" // the call of an interrupt that is neither an approval nor a call
)

// waiting is a call that the run waits for.
type waiting struct{ reason, id, name string }

// interruptsOf translates the interrupts in a member, or reports false.
func (t *translator) interruptsOf(d *dialect.Object, member string) bool {
	list := d.List(member)
	if list == nil {
		return false
	}
	if len(list) == 0 { // the graph stops before or after a node
		t.stopped = true
	}
	understood := true
	for _, o := range list {
		understood = o != nil && t.interrupt(o, cmp.Or(either(o, "id"), "id"), "value") && understood
	}
	return understood
}

// interrupt translates an interrupt, whose id and value have these names, once in each response. It reports false if the log cannot have it.
func (t *translator) interrupt(o *dialect.Object, idName, valueName string) bool {
	id, value := o.PeekText(idName), slices.Clone(dialect.OrNull(o.Peek(valueName)))
	rest := dialect.Without(o.All(), 1, idName, valueName)
	if id == "" {
		return false
	}
	if known, again := t.interrupts[id]; again {
		if string(known) != string(value) {
			return false
		}
		o.Get(idName)
		o.Get(valueName)
		return true
	}
	t.raised[id]++
	key := id
	if n := t.raised[id]; n > 1 {
		key = fmt.Sprintf("%s_%d", id, n)
	}
	t.interrupts[id] = value
	whole := rawjson.Begin(nil)
	whole.Raw("interrupt", dialect.Quote(id))
	whole.Raw("value", value)
	if string(rest) != "{}" {
		whole.Raw("more", rest)
	}
	with := chunk.Member{Name: memberName, Value: redact(whole.End())}
	w := t.request(key, dialect.Read(value), value, with)
	if w == nil {
		t.stopped = true
		return false
	}
	if t.waits == nil {
		t.waits = w
	}
	o.GetAll()
	return true
}

// request writes what an interrupt asks for, and returns the first call that waits, nil if the log cannot have it.
func (t *translator) request(id string, v *dialect.Object, value chunk.Value, with chunk.Member) (w *waiting) {
	if actions := v.List(either(v, "action_requests")); len(actions) > 0 {
		for i, action := range actions {
			name, input := action.PeekText("name"), dialect.Arguments(dialect.OrNull(action.Peek(cmp.Or(has(action, "args"), "arguments"))))
			approval := fmt.Sprintf("approval-%s-%d", id, i)
			k := t.openCall(name, input)
			if k == nil {
				k = &call{agent: t.root, id: fmt.Sprintf("%s-%d", id, i), name: cmp.Or(name, "unknown"), input: slices.Clone(input)}
				if !t.startCall(k) {
					return nil
				}
			}
			k.asked = true
			if !t.root.EmitValid(chunk.ToolApprovalRequest{ToolCallID: k.id, ToolName: k.name, ApprovalID: approval, Input: input}, with) {
				return nil
			}
			if w == nil {
				w = &waiting{"tool_approval", k.id, k.name}
			}
		}
		return w
	}
	if c := v.Object(either(v, "tool_call")); v.PeekText("type") == "tool" && c.PeekText("id") != "" && c.PeekText("name") != "" {
		k := &call{agent: t.root, id: c.PeekText("id"), name: c.PeekText("name"), input: slices.Clone(c.Value("args"))}
		if old := t.calls[k.id]; old != nil {
			t.root.Keep("interrupt", with.Value)
		} else if !t.startCall(k, chunk.RunBy(false), with) {
			return nil
		}
		return &waiting{"suspended_client_tool", k.id, k.name}
	}
	k := &call{agent: t.root, id: id, name: interruptTool, input: value}
	if !t.startCall(k, chunk.RunBy(false), with) {
		return nil
	}
	return &waiting{"suspended_client_tool", k.id, k.name}
}

// has returns the name if the object has a member with it, "" if not.
func has(o *dialect.Object, name string) string {
	if o.Peek(name) == nil {
		return ""
	}
	return name
}

// openCall returns the first call of the root graph of a tool with an input that no approval was asked for, nil for none.
func (t *translator) openCall(name string, input chunk.Value) (found *call) {
	for _, k := range t.calls {
		if k.agent == t.root && k.name == name && !k.asked && !k.provider && same(dialect.Arguments(k.input), input) && (found == nil || k.id < found.id) {
			found = k
		}
	}
	return found
}

// custom translates an event of the program, and reports false for all others.
func (t *translator) custom(a *agent, method string, p, d *dialect.Object) bool {
	name, named := strings.CutPrefix(method, "custom:")
	data := p.Peek("data")
	if method == "custom" {
		name, named = dialect.Text(d.Peek("name"))
		if data = d.Peek("payload"); data == nil {
			return false
		}
	}
	if !named || name == "" || !a.EmitValid(chunk.Custom{EventName: name, Data: dialect.OrNull(data)}) {
		return false
	}
	if method == "custom" {
		d.Get("name")
		d.Get("payload")
	} else {
		p.Get("data")
	}
	return true
}
