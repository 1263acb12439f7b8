package openaitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// The members of a request that the endpoint accepts, by API: those published members that our client uses.
// Others are rejected as by the real endpoint.
var members = map[string][]string{
	"chat": {
		"model", "messages", "stream", "stream_options", "tools", "tool_choice", "parallel_tool_calls", "temperature", "top_p", "max_tokens",
		"max_completion_tokens", "reasoning_effort", "seed", "stop", "user", "store", "metadata", "response_format",
	},
	"responses": {
		"model", "input", "instructions", "stream", "stream_options", "tools", "tool_choice", "parallel_tool_calls", "temperature", "top_p",
		"max_output_tokens", "reasoning", "store", "metadata", "include", "text", "truncation", "user",
	},
}

var nameOK = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// parse parses a request. The text is the reason why it is invalid.
func parse(r *http.Request, body []byte) (Request, string) {
	req := Request{Body: body}
	switch {
	case r.Method != http.MethodPost:
		return req, "want POST"
	case strings.HasSuffix(r.URL.Path, "/v1/chat/completions"):
		req.API = "chat"
	case strings.HasSuffix(r.URL.Path, "/v1/responses"):
		req.API = "responses"
	default:
		return req, "unknown URL"
	}
	if r.Header.Get("Content-Type") != "application/json" {
		return req, "want Content-Type application/json"
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(body, &all); err != nil {
		return req, "we could not parse the JSON body of your request"
	}
	for name := range all {
		if !slices.Contains(members[req.API], name) {
			return req, "unknown parameter: " + name
		}
	}
	var common struct {
		Model      string          `json:"model"`
		Stream     bool            `json:"stream"`
		ToolChoice json.RawMessage `json:"tool_choice"`
	}
	if err := json.Unmarshal(body, &common); err != nil || common.Model == "" || !common.Stream {
		return req, "want a model, and stream: true"
	}
	req.Model = common.Model
	_ = json.Unmarshal(common.ToolChoice, &req.ToolChoice) // an object, or nothing: not a mode
	if req.API == "chat" {
		return parseChat(req, all)
	}
	return parseResponses(req, all)
}

// strict decodes and rejects unknown members.
func strict(text []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	return dec.Decode(v)
}

func parseChat(req Request, all map[string]json.RawMessage) (Request, string) {
	var tools []struct {
		Type     string `json:"type"`
		Function struct {
			Name        string         `json:"name"`
			Description string         `json:"description"`
			Parameters  map[string]any `json:"parameters"`
			Strict      bool           `json:"strict"`
		} `json:"function"`
	}
	if text, ok := all["tools"]; ok {
		if err := strict(text, &tools); err != nil || len(tools) == 0 {
			return req, fmt.Sprintf("tools: %v", err)
		}
	}
	for _, t := range tools {
		if t.Type != "function" || !nameOK.MatchString(t.Function.Name) || t.Function.Parameters["type"] != "object" {
			return req, "tools: want functions with a name, and parameters of type object"
		}
		req.Tools = append(req.Tools, t.Function.Name)
	}
	var messages []struct {
		Role       string          `json:"role"`
		Content    json.RawMessage `json:"content"`
		ToolCallID string          `json:"tool_call_id"`
		Reasoning  *string         `json:"reasoning_content"` // not in the published API
		Extra      json.RawMessage `json:"extra_content"`     // nor are these
		Details    json.RawMessage `json:"reasoning_details"`
		Blocks     json.RawMessage `json:"thinking_blocks"`
		ToolCalls  []struct {
			ID       string          `json:"id"`
			Type     string          `json:"type"`
			Extra    json.RawMessage `json:"extra_content"`
			Function struct {
				Name      string `json:"name"`
				Arguments string `json:"arguments"`
			} `json:"function"`
		} `json:"tool_calls"`
	}
	if err := strict(all["messages"], &messages); err != nil || len(messages) == 0 {
		return req, fmt.Sprintf("messages: want at least one (%v)", err)
	}
	for i, m := range messages {
		out := Message{Role: m.Role, CallID: m.ToolCallID, Reasoning: m.Reasoning}
		var problem string
		if out.Text, out.Files, problem = content(m.Content, "text"); problem != "" {
			return req, problem
		}
		for _, c := range m.ToolCalls {
			if c.ID == "" || c.Type != "function" || !nameOK.MatchString(c.Function.Name) {
				return req, "messages: a tool call without id, type or name"
			}
			out.Calls = append(out.Calls, Call{ID: c.ID, Name: c.Function.Name, Args: c.Function.Arguments})
		}
		switch {
		case m.Role == "system" && i == 0:
			req.System = out.Text
			continue
		case m.Role == "assistant" && out.Text == "" && len(out.Calls) == 0:
			return req, "messages: content is required unless there are tool_calls"
		case m.Role == "tool" && m.ToolCallID == "":
			return req, "messages: want tool_call_id"
		case m.Role != "user" && m.Role != "assistant" && m.Role != "tool":
			return req, "messages: role " + m.Role
		}
		req.Messages = append(req.Messages, out)
	}
	return req, paired(req.Messages, true)
}

// content parses a text or a list of parts.
func content(text json.RawMessage, textType string) (string, int, string) {
	if len(text) == 0 || string(text) == "null" {
		return "", 0, ""
	}
	var plain string
	if json.Unmarshal(text, &plain) == nil {
		return plain, 0, ""
	}
	var parts []map[string]json.RawMessage
	if err := json.Unmarshal(text, &parts); err != nil || len(parts) == 0 {
		return "", 0, "content: want a text or parts"
	}
	files := 0
	for _, p := range parts {
		var kind, piece string
		_ = json.Unmarshal(p["type"], &kind) // "" is rejected below
		switch kind {
		case textType:
			if json.Unmarshal(p["text"], &piece) != nil {
				return "", 0, "content: a part without its text"
			}
			plain += piece
		case "image_url", "file", "input_image", "input_file":
			files++
		default:
			return "", 0, "content: a part of type " + kind
		}
	}
	return plain, files, ""
}

// paired checks that each call has one outcome. In chat completions the outcomes follow the message directly.
func paired(messages []Message, atOnce bool) string {
	waiting := map[string]bool{}
	for _, m := range messages {
		if m.Role == "tool" {
			if !waiting[m.CallID] {
				return "messages with role 'tool' must be a response to a preceding message with 'tool_calls': " + m.CallID
			}
			delete(waiting, m.CallID)
			continue
		}
		if atOnce && len(waiting) > 0 {
			break
		}
		for _, c := range m.Calls {
			if waiting[c.ID] {
				return "two calls with the id " + c.ID
			}
			waiting[c.ID] = true
		}
	}
	if len(waiting) > 0 {
		return fmt.Sprintf("an assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id': %v", waiting)
	}
	return ""
}

func parseResponses(req Request, all map[string]json.RawMessage) (Request, string) {
	_ = json.Unmarshal(all["instructions"], &req.System) // absent is none
	var problem string
	if req.Tools, problem = functions(all["tools"]); problem != "" {
		return req, problem
	}
	var items []struct {
		Type      string          `json:"type"`
		Role      string          `json:"role"`
		Content   json.RawMessage `json:"content"`
		CallID    string          `json:"call_id"`
		Name      string          `json:"name"`
		Arguments string          `json:"arguments"`
		Output    *string         `json:"output"`
		ID        string          `json:"id"`
		Summary   json.RawMessage `json:"summary"`
		Encrypted string          `json:"encrypted_content"`
	}
	if err := strict(all["input"], &items); err != nil || len(items) == 0 {
		return req, fmt.Sprintf("input: want items (%v)", err)
	}
	for _, item := range items {
		if item.Type == "" {
			item.Type = "message"
		}
		switch item.Type {
		case "message":
			m := Message{Role: item.Role}
			var problem string
			if m.Text, m.Files, problem = content(item.Content, "input_text"); problem != "" {
				return req, problem
			}
			if m.Role != "user" && m.Role != "assistant" {
				return req, "input: role " + m.Role
			}
			req.Messages = append(req.Messages, m)
		case "function_call":
			if item.CallID == "" || len(item.CallID) > 64 || !nameOK.MatchString(item.Name) {
				return req, "input: a function_call without call_id or name"
			}
			call := Call{ID: item.CallID, Name: item.Name, Args: item.Arguments}
			if last := len(req.Messages) - 1; last >= 0 && req.Messages[last].Role == "assistant" {
				req.Messages[last].Calls = append(req.Messages[last].Calls, call)
			} else {
				req.Messages = append(req.Messages, Message{Role: "assistant", Calls: []Call{call}})
			}
		case "reasoning": // as the endpoint sent it
		case "function_call_output":
			if item.Output == nil {
				return req, "input: a function_call_output without output"
			}
			req.Messages = append(req.Messages, Message{Role: "tool", CallID: item.CallID, Text: *item.Output})
		default:
			return req, "input: an item of type " + item.Type
		}
	}
	return req, paired(req.Messages, false)
}

// functions parses the tools of the Responses API.
func functions(text json.RawMessage) (names []string, problem string) {
	if text == nil {
		return nil, ""
	}
	var tools []struct {
		Type        string         `json:"type"`
		Name        string         `json:"name"`
		Description string         `json:"description"`
		Parameters  map[string]any `json:"parameters"`
		Strict      *bool          `json:"strict"`
	}
	if err := strict(text, &tools); err != nil {
		return nil, fmt.Sprintf("tools: %v", err)
	}
	for _, t := range tools {
		// Without strict the real API accepts only schemas in which every property is required.
		if t.Type != "function" || !nameOK.MatchString(t.Name) || t.Parameters["type"] != "object" || t.Strict == nil || *t.Strict {
			return nil, "tools: want functions with a name, parameters of type object, and strict: false"
		}
		names = append(names, t.Name)
	}
	return names, ""
}
