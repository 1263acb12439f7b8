package openai

import "encoding/json"

// responsesWire writes requests of the Responses API. The endpoint stores nothing: every request contains the whole
// history.
type responsesWire struct{ model string }

type (
	// responsesItem is a message, or with a type a call or its outcome.
	responsesItem struct {
		Type      string  `json:"type,omitempty"`
		Role      string  `json:"role,omitempty"`
		Content   any     `json:"content,omitempty"` // a string or []responsesPart
		CallID    string  `json:"call_id,omitempty"`
		Name      string  `json:"name,omitempty"`
		Arguments *string `json:"arguments,omitempty"`
		Output    *string `json:"output,omitempty"`
	}
	responsesPart struct {
		Type     string `json:"type"`
		Text     string `json:"text,omitempty"`
		Detail   string `json:"detail,omitempty"`
		ImageURL string `json:"image_url,omitempty"`
		FileData string `json:"file_data,omitempty"`
		FileURL  string `json:"file_url,omitempty"`
		Filename string `json:"filename,omitempty"`
	}
	responsesTool struct {
		Type        string         `json:"type"`
		Name        string         `json:"name"`
		Description string         `json:"description,omitempty"`
		Parameters  map[string]any `json:"parameters"`
		Strict      bool           `json:"strict"`
	}
)

// body returns the members of a request.
func (w responsesWire) body(q request) map[string]any {
	input := []any{}
	for _, e := range q.history {
		input = append(input, responsesItems(e)...)
	}
	body := map[string]any{"model": w.model, "input": input, "store": false, "stream": true}
	if q.system != "" {
		body["instructions"] = q.system
	}
	var tools []responsesTool
	for _, t := range q.tools {
		tools = append(tools, responsesTool{Type: "function", Name: t.Name, Description: t.Description, Parameters: t.params})
	}
	if tools != nil {
		body["tools"] = tools
	}
	if q.requireTool {
		body["tool_choice"] = "required"
	}
	return body
}

func responsesItems(e entry) []any {
	switch e.role {
	case outcomeRole:
		return []any{responsesItem{Type: "function_call_output", CallID: e.call, Output: &e.text}}
	case modelRole:
		return modelItems(e)
	}
	if len(e.files) == 0 {
		return []any{responsesItem{Role: "user", Content: e.text}}
	}
	var parts []responsesPart
	if e.text != "" {
		parts = append(parts, responsesPart{Type: "input_text", Text: e.text})
	}
	for _, f := range e.files {
		switch {
		case isImage(f):
			parts = append(parts, responsesPart{Type: "input_image", Detail: "auto", ImageURL: f.URL})
		case isData(f):
			parts = append(parts, responsesPart{Type: "input_file", FileData: f.URL, Filename: filename(f)})
		default:
			parts = append(parts, responsesPart{Type: "input_file", FileURL: f.URL})
		}
	}
	return []any{responsesItem{Role: "user", Content: parts}}
}

// modelItems returns the items of a message of the model. Items of reasoning precede what they belong to, as they came.
func modelItems(e entry) (items []any) {
	list := e.items
	if list == nil {
		if e.text != "" {
			list = append(list, modelItem{text: e.text})
		}
		for i := range e.calls {
			list = append(list, modelItem{call: &e.calls[i]})
		}
	}
	for _, m := range list {
		switch {
		case m.item != nil:
			items = append(items, json.RawMessage(m.item))
		case m.call != nil:
			items = append(items, responsesItem{Type: "function_call", CallID: m.call.id, Name: m.call.name, Arguments: &m.call.args})
		default:
			items = append(items, responsesItem{Role: "assistant", Content: m.text})
		}
	}
	return items
}
