package openai

import (
	"encoding/json"

	"github.com/tailrace/tailrace/internal/rawjson"
)

// chatWire writes requests of chat completions.
type chatWire struct {
	model         string
	sendReasoning bool
}

type (
	chatMessage struct {
		Role       string     `json:"role"`
		Content    any        `json:"content,omitempty"` // a string or []chatPart
		Reasoning  *string    `json:"reasoning_content,omitempty"`
		ToolCalls  []chatCall `json:"tool_calls,omitempty"`
		ToolCallID string     `json:"tool_call_id,omitempty"`

		// What the endpoint wants back, as it came.
		ReasoningDetails json.RawMessage `json:"reasoning_details,omitempty"`
		ThinkingBlocks   json.RawMessage `json:"thinking_blocks,omitempty"`
		ExtraContent     json.RawMessage `json:"extra_content,omitempty"`
	}
	chatPart struct {
		Type     string     `json:"type"`
		Text     string     `json:"text,omitempty"`
		ImageURL *chatImage `json:"image_url,omitempty"`
		File     *chatFile  `json:"file,omitempty"`
	}
	chatImage struct {
		URL string `json:"url"`
	}
	chatFile struct {
		Data string `json:"file_data"`
		Name string `json:"filename"`
	}
	chatCall struct {
		ID       string           `json:"id"`
		Type     string           `json:"type"`
		Function chatCallFunction `json:"function"`

		ExtraContent json.RawMessage `json:"extra_content,omitempty"`
	}
	chatCallFunction struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	chatTool struct {
		Type     string       `json:"type"`
		Function chatFunction `json:"function"`
	}
	chatFunction struct {
		Name        string         `json:"name"`
		Description string         `json:"description,omitempty"`
		Parameters  map[string]any `json:"parameters"`
	}
)

// body returns the members of a request.
func (w chatWire) body(q request) map[string]any {
	messages := make([]chatMessage, 0, len(q.history)+1)
	if q.system != "" {
		messages = append(messages, chatMessage{Role: "system", Content: q.system})
	}
	for _, e := range q.history {
		messages = append(messages, w.message(e))
	}
	body := map[string]any{
		"model": w.model, "messages": messages,
		"stream": true, "stream_options": map[string]any{"include_usage": true},
	}
	var tools []chatTool
	for _, t := range q.tools {
		tools = append(tools, chatTool{Type: "function", Function: chatFunction{Name: t.Name, Description: t.Description, Parameters: t.params}})
	}
	if tools != nil {
		body["tools"] = tools
	}
	if q.requireTool {
		body["tool_choice"] = "required"
	}
	return body
}

func (w chatWire) message(e entry) chatMessage {
	switch e.role {
	case outcomeRole:
		return chatMessage{Role: "tool", Content: e.text, ToolCallID: e.call}
	case modelRole:
		m := chatMessage{Role: "assistant"}
		if w.sendReasoning {
			m.Reasoning = &e.reasoning
		}
		if e.text != "" {
			m.Content = e.text
		}
		for _, c := range e.calls {
			m.ToolCalls = append(m.ToolCalls, chatCall{
				ID: c.id, Type: "function", Function: chatCallFunction{Name: c.name, Arguments: c.args}, ExtraContent: rawjson.Get(c.state, "extra_content"),
			})
		}
		for _, s := range e.states {
			m.addState(s)
		}
		return m
	}
	if len(e.files) == 0 {
		return chatMessage{Role: "user", Content: e.text} // text-only servers reject parts
	}
	var parts []chatPart
	if e.text != "" {
		parts = append(parts, chatPart{Type: "text", Text: e.text})
	}
	for _, f := range e.files {
		switch {
		case isImage(f):
			parts = append(parts, chatPart{Type: "image_url", ImageURL: &chatImage{URL: f.URL}})
		case isData(f):
			parts = append(parts, chatPart{Type: "file", File: &chatFile{Data: f.URL, Name: filename(f)}})
		default:
			parts = append(parts, chatPart{Type: "text", Text: fileReference(f)})
		}
	}
	return chatMessage{Role: "user", Content: parts}
}
