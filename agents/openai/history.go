package openai

import (
	"encoding/json"
	"strings"

	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/workers"
)

// entry is one message as both APIs know it.
type entry struct {
	role  role
	text  string
	files []workers.File // of a person
	calls []said         // of the model
	call  string         // of an outcome: the id of the call
}

type role int

const (
	person role = iota
	model
	outcome
)

// said is a call that the model has made.
type said struct{ id, name, args string }

// entriesOf is the history for the model. Every call has its outcome right behind
// the answer that it is in: both APIs refuse anything else.
func entriesOf(list []workers.Message) []entry {
	var out []entry
	for _, m := range list {
		if m.Role == fold.User {
			out = append(out, asked(m)...)
			continue
		}
		e := entry{role: model, text: m.Text()}
		calls := m.Calls()
		for _, c := range calls {
			e.calls = append(e.calls, said{id: c.ID, name: c.Name, args: argsOf(c)})
		}
		if e.text == "" && len(e.calls) == 0 {
			continue // it has only thought, or shown something
		}
		out = append(out, e)
		for _, c := range calls {
			out = append(out, entry{role: outcome, call: c.ID, text: outcomeOf(c)})
		}
	}
	return out
}

func asked(m workers.Message) []entry {
	e := entry{role: person, text: m.Text()}
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

// argsOf is a JSON object also for a call whose arguments never came whole: some
// servers read them.
func argsOf(c workers.ToolCall) string {
	var object map[string]json.RawMessage
	if json.Unmarshal(c.Input, &object) != nil || object == nil {
		return "{}"
	}
	return string(c.Input)
}

// outcomeOf is what the model hears of a call.
func outcomeOf(c workers.ToolCall) string {
	switch c.State {
	case workers.CallDone:
		var text string
		if !c.Output.IsNull() && json.Unmarshal(c.Output, &text) == nil {
			return text
		}
		return c.Output.String()
	case workers.CallFailed, workers.CallDenied:
		return "error: " + c.Error
	}
	return "error: the call has no outcome"
}

// isImage reports whether a model sees the file, rather than reads it.
func isImage(f workers.File) bool { return strings.HasPrefix(f.MediaType, "image/") }

// filename is a name for a file that needs one.
func filename(f workers.File) string {
	if f.Filename != "" {
		return f.Filename
	}
	return "file"
}

// isData reports whether the URL of a file is the file.
func isData(f workers.File) bool { return strings.HasPrefix(f.URL, "data:") }

// mention is the text for a file that an API cannot take.
func mention(f workers.File) string {
	return "[file " + filename(f) + " (" + f.MediaType + "): " + f.URL + "]"
}
