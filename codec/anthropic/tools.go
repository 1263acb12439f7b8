package anthropic

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
)

// maxArguments bounds the bytes of the arguments of a call that is streamed.
const maxArguments = 4 << 20

// call is a call of a tool without a result.
type call struct {
	agent    *agent
	id, name string
	provider bool // the endpoint runs it
	streamed bool
	sdk      bool        // the SDK has made it
	input    chunk.Value // of the start of the block, and then the arguments
	args     strings.Builder
	done     bool // it has started, or was rejected
}

// callStart begins a call. The arguments of one that is streamed follow.
func (t *translator) callStart(a *agent, b *block, c *dialect.Object) bool {
	m := t.current(a)
	m.content, m.called = true, true
	k := &call{
		agent: a, sdk: t.sdk, id: c.Or("id", ""), name: cmp.Or(c.Or("name", ""), "unknown"), provider: b.kind != "tool_use", streamed: !b.whole,
		input: slices.Clone(c.Get("input")),
	}
	if k.id == "" {
		k.id = fmt.Sprintf("call_%d_%d", a.Step, len(m.blocks))
	}
	b.call, t.calls[k.id] = k, k
	return !k.streamed || a.EmitValid(chunk.ToolArgStreamStart{ToolCallID: k.id, ToolName: k.name}, k.by()...)
}

// by returns the member that says who runs a call. The SDK does not say it of the tools that it runs.
func (k *call) by() []chunk.Member {
	if k.sdk && !k.provider {
		return nil
	}
	return []chunk.Member{chunk.RunBy(k.provider)}
}

func (t *translator) arguments(a *agent, k *call, piece string) bool {
	if k.args.Len() <= maxArguments {
		k.args.WriteString(piece)
	}
	return piece == "" || a.EmitValid(chunk.ToolArgStreamDelta{ToolCallID: k.id, Delta: piece})
}

// callEnd starts a call, or rejects one whose arguments are not JSON.
func (t *translator) callEnd(a *agent, k *call, cut bool) {
	if k.done {
		return
	}
	k.done = true
	if k.streamed {
		a.EmitValid(chunk.ToolArgStreamEnd{ToolCallID: k.id})
	}
	args, err := k.input, error(nil)
	streamed := strings.TrimSpace(k.args.String())
	if streamed != "" {
		if len(k.input) > len("{}") { // two inputs of one call
			a.KeepCall(k.id, k.name, k.input)
		}
		args, err = dialect.CheckValue([]byte(streamed))
	}
	k.args.Reset()
	if k.input = nil; k.sdk {
		k.input = args
	}
	if !cut && err == nil && a.EmitValid(chunk.ToolStart{ToolCallID: k.id, ToolName: k.name, Arguments: dialect.Arguments(args)}, k.by()...) {
		if a == t.root && !k.provider {
			t.open = append(t.open, k)
		}
		return
	}
	t.rejected = true
	e := chunk.ToolInputError{ToolCallID: k.id, ToolName: k.name, Error: "the arguments are not complete, not valid JSON, or too long"}
	if streamed == "" && len(args) > len("{}") {
		e.PartialInput = &args
	}
	if !a.EmitValid(e) {
		a.KeepCall(k.id, k.name, args)
	}
}

// result reads the result of a call, and reports false if it does not say of which. structured is its form for programs, nil for none.
func (t *translator) result(a *agent, c *dialect.Object, structured chunk.Value) bool {
	id, ok := c.Text("tool_use_id")
	if !ok {
		return false
	}
	kind := c.Or("type", "")
	end := chunk.ToolEnd{ToolCallID: id, ToolName: cmp.Or(strings.TrimSuffix(strings.TrimSuffix(kind, "tool_result"), "_"), "unknown"), ProviderExecuted: new(true)}
	isAsync := dialect.Read(structured).PeekText("status") == "async_launched"
	if k := t.calls[id]; k != nil {
		a, end.ToolName = k.agent, k.name
		if !isAsync { // its messages follow
			delete(t.calls, id)
		}
		t.open = slices.DeleteFunc(t.open, func(o *call) bool { return o == k })
	}
	inner := c.Object("content")
	failed := c.Flag("is_error") || strings.HasSuffix(inner.PeekText("type"), "_error")
	if !failed {
		content := c.Get("content")
		if end.Result = structured; structured == nil {
			end.Result = dialect.OrNull(content)
		}
		if !isAsync {
			t.endChild(id, nil, dialect.OrNull(content))
		}
		return a.live().EmitValid(end)
	}
	end.ErrorCode = inner.Maybe("error_code")
	message := inner.Or("error_message", "")
	if message == "" && end.ErrorCode != nil {
		message = *end.ErrorCode
	}
	message = cmp.Or(message, textOf(c), "the tool failed")
	t.endChild(id, &chunk.ErrorDetail{Message: message}, nil)
	if kind == "tool_result" {
		return a.live().EmitValid(chunk.ToolOutputError{ToolCallID: id, ToolName: end.ToolName, Error: message})
	}
	end.Error = &message
	return a.live().EmitValid(end)
}

// textOf reads the texts of the content of a result.
func textOf(c *dialect.Object) string {
	texts := []string{c.Or("content", "")}
	for _, part := range c.List("content") {
		if part.PeekText("type") == kindText {
			texts = append(texts, part.Or("text", ""))
			part.Get("type")
		}
	}
	return strings.Join(texts, "")
}
