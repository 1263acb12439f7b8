package otlp

import (
	"cmp"
	"encoding/json"

	"github.com/tailrace/tailrace/sink/row"
)

// message and part have the form of the values of gen_ai.input.messages and gen_ai.output.messages.
type message struct {
	Role         string `json:"role"`
	Parts        []part `json:"parts"`
	FinishReason string `json:"finish_reason,omitempty"`
}

type part struct {
	Type     string `json:"type"`
	Content  string `json:"content,omitempty"`   // of a text
	ID       string `json:"id,omitempty"`        // of a call
	Name     string `json:"name,omitempty"`      // of a call
	URI      string `json:"uri,omitempty"`       // of a file
	MIMEType string `json:"mime_type,omitempty"` // of a file
	Modality string `json:"modality,omitempty"`  // of a file
}

// inputMessages returns the messages of a user, "" if there are none.
func inputMessages(input row.JSON) string {
	var messages []struct {
		Content string `json:"content"`
		Files   []struct {
			URL       string `json:"url"`
			MediaType string `json:"mediaType"`
		} `json:"files"`
	}
	if !read(input, &messages) {
		return ""
	}
	out := make([]message, len(messages))
	for i, m := range messages {
		out[i] = message{Role: "user", Parts: []part{{Type: "text", Content: m.Content}}}
		for _, f := range m.Files {
			out[i].Parts = append(out[i].Parts, part{Type: "uri", URI: f.URL, MIMEType: f.MediaType, Modality: "document"})
		}
	}
	return written(out)
}

// runOutput returns the answer of a run, "" if there is none: its last text, or a JSON value.
func runOutput(output row.JSON) string {
	if output == "" {
		return ""
	}
	content := string(output)
	var answer string
	if read(output, &answer) {
		content = answer
	}
	return written([]message{{Role: "assistant", Parts: []part{{Type: "text", Content: content}}, FinishReason: "stop"}})
}

// stepOutput returns the answer of a model, "" if there is none.
func stepOutput(output row.JSON, finishReason string) string {
	var answer struct {
		Text  string `json:"text"`
		Calls []struct {
			ID   string `json:"id"`
			Name string `json:"name"`
		} `json:"calls"`
	}
	if !read(output, &answer) {
		return ""
	}
	m := message{Role: "assistant", FinishReason: cmp.Or(finishReason, "stop")}
	if answer.Text != "" {
		m.Parts = append(m.Parts, part{Type: "text", Content: answer.Text})
	}
	for _, c := range answer.Calls {
		m.Parts = append(m.Parts, part{Type: "tool_call", ID: c.ID, Name: c.Name})
	}
	return written([]message{m})
}

// read reports whether value could be read.
func read(value row.JSON, to any) bool {
	return value != "" && json.Unmarshal([]byte(value), to) == nil
}

func written(messages []message) string {
	out, err := json.Marshal(messages)
	if err != nil { // texts are always valid
		return ""
	}
	return string(out)
}
