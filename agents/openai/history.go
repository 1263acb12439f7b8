package openai

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/projector/fold"
)

// entry is one message in a form that both APIs share.
type entry struct {
	role      role
	text      string
	reasoning string        // of the model
	files     []fold.File   // of a user
	calls     []historyCall // of the model
	call      string        // call id of an outcome
	states    []chunk.Value // of the texts and the reasoning of the model
	items     []modelItem   // what the model has written, in this order, if a part of it is an item that the endpoint wants back
}

// modelItem is one of an item of the endpoint, a text and a call.
type modelItem struct {
	item chunk.Value
	text string
	call *historyCall
}

type role int

const (
	userRole role = iota
	modelRole
	outcomeRole
)

// historyCall is a call that the model has made.
type historyCall struct {
	id, name, args string
	state          chunk.Value
}

// entriesOf converts the history. Every call has its outcome directly after its message, as both APIs
// require.
func entriesOf(list []fold.Message, endpoint string) []entry {
	var out []entry
	for _, m := range list {
		if m.Role == fold.User {
			out = append(out, userEntries(m)...)
			continue
		}
		e := entry{role: modelRole, text: m.Text(), reasoning: reasoningOf(m)}
		calls := slices.DeleteFunc(m.Calls(), func(c fold.ToolCall) bool { return c.OutcomeUnknown() })
		for _, c := range calls {
			e.calls = append(e.calls, callOf(c, endpoint))
		}
		e.addStates(m, endpoint)
		if e.text == "" && len(e.calls) == 0 {
			continue // it has reasoning or data only
		}
		out = append(out, e)
		for _, c := range calls {
			out = append(out, entry{role: outcomeRole, call: c.ID, text: outcomeOf(c)})
		}
	}
	return out
}

func callOf(c fold.ToolCall, endpoint string) historyCall {
	h := historyCall{id: c.ID, name: c.Name, args: argsOf(c)}
	for _, m := range c.Extra {
		if m.Name == "callProviderMetadata" {
			h.state = stateOf(m.Value, endpoint)
		}
	}
	return h
}

// addStates adds what the endpoint wants back with a message of the model.
func (e *entry) addStates(m fold.Message, endpoint string) {
	items := false
	for _, p := range m.Parts {
		state := stateOf(p.ProviderMetadata, endpoint)
		if state != nil {
			e.states = append(e.states, state)
		}
		switch item := rawjson.Get(state, "item"); {
		case item != nil:
			items = true
			e.items = append(e.items, modelItem{item: item})
		case p.Kind == fold.PartText && p.Text != "":
			e.items = append(e.items, modelItem{text: strings.ToValidUTF8(p.Text, "\uFFFD")})
		case p.Call != nil && !p.Call.OutcomeUnknown():
			e.items = append(e.items, modelItem{call: new(callOf(*p.Call, endpoint))})
		}
	}
	if !items {
		e.items = nil
	}
}

// reasoningOf returns the reasoning of a step, with U+FFFD for what is not UTF-8.
func reasoningOf(m fold.Message) string {
	var b strings.Builder
	for _, p := range m.Parts {
		if p.Kind == fold.PartReasoning {
			b.WriteString(p.Text)
		}
	}
	return strings.ToValidUTF8(b.String(), "\uFFFD")
}

func userEntries(m fold.Message) []entry {
	e := entry{role: userRole, text: m.TextAndData()}
	for _, p := range m.Parts {
		if p.File != nil {
			e.files = append(e.files, *p.File)
		}
	}
	if e.text == "" && len(e.files) == 0 {
		return nil
	}
	return []entry{e}
}

// argsOf returns the arguments, {} for incomplete ones: some servers parse them.
func argsOf(c fold.ToolCall) string {
	var object map[string]json.RawMessage
	if json.Unmarshal(c.Input, &object) != nil || object == nil {
		return "{}"
	}
	return string(c.Input)
}

// outcomeOf returns the outcome of a call as text for the model.
func outcomeOf(c fold.ToolCall) string {
	switch c.State {
	case fold.CallDone:
		var text string
		if !c.Output.IsNull() && json.Unmarshal(c.Output, &text) == nil {
			return text
		}
		return c.Output.String()
	case fold.CallFailed, fold.CallDenied:
		return "error: " + c.Error
	}
	return "error: no outcome"
}

// isImage reports whether the file is an image, which has a part type of its own.
func isImage(f fold.File) bool { return strings.HasPrefix(f.MediaType, "image/") }

// filename returns the name of a file, or a default.
func filename(f fold.File) string {
	return cmp.Or(f.Filename, "file")
}

// isData reports whether the file is a data URL.
func isData(f fold.File) bool { return strings.HasPrefix(f.URL, "data:") }

// fileReference returns the text for a file that an API does not accept.
func fileReference(f fold.File) string {
	return "[file " + filename(f) + " (" + f.MediaType + "): " + f.URL + "]"
}
