package workers

import (
	"encoding/json"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector/fold"
)

// Message is one entry of the history as a model counts it: what a person said,
// or what one step of an answer said and did.
type Message struct {
	ID       string // "msg-<n>"; people are shown all steps of an answer under the first one's
	Role     fold.Role
	ClientID string      // the id that the client gave its message, "" for none
	Metadata chunk.Value // nil for none
	Hidden   bool        // people are not shown it; the model is
	Parts    []Part

	index int
}

// Text is what the message says: its parts of text, joined.
func (m Message) Text() string {
	var b strings.Builder
	for _, p := range m.Parts {
		if p.Type == PartText {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

// Calls are the tool calls of the message, with what came of them.
func (m Message) Calls() []ToolCall {
	var calls []ToolCall
	for _, p := range m.Parts {
		if p.Tool != nil {
			calls = append(calls, *p.Tool)
		}
	}
	return calls
}

// PartType says what a part is. A "data-…" one is named by the application.
type PartType string

// The types of parts.
const (
	PartText           PartType = "text"
	PartReasoning      PartType = "reasoning"
	PartTool           PartType = "dynamic-tool"
	PartFile           PartType = "file"
	PartSourceURL      PartType = "source-url"
	PartSourceDocument PartType = "source-document"
)

// Part is one piece of a message.
type Part struct {
	Type PartType
	Text string      // of text and reasoning
	Tool *ToolCall   // of a tool call
	File *File       // of a file
	Raw  chunk.Value // the part as a browser gets it
}

// File is a file in a message.
type File struct {
	URL       string // a data URL or a hosted one
	MediaType string
	Filename  string // "" for none
}

// ToolCall is a call of a tool and what came of it.
type ToolCall struct {
	ID     string
	Name   string
	Input  chunk.Value
	State  CallState
	Output chunk.Value // of CallDone
	Error  string      // of CallFailed, and why a call was denied
}

// CallState says how a call stands.
type CallState string

// The states of a call.
const (
	CallStreaming CallState = "input-streaming"    // its input never came whole
	CallOpen      CallState = "input-available"    // no outcome
	CallAsked     CallState = "approval-requested" // a person must allow it
	CallGranted   CallState = "approval-responded" // a person has; it is to be run, see Step.Granted
	CallDone      CallState = "output-available"
	CallFailed    CallState = "output-error"
	CallDenied    CallState = "output-denied" // a person has not allowed it
)

// messagesOf translates what the fold tells.
func messagesOf(list []fold.Message) []Message {
	out := make([]Message, 0, len(list))
	for _, m := range list {
		msg := Message{ID: fold.MessageID(m.Index), Role: m.Role, ClientID: m.ClientID, Metadata: m.Metadata, Hidden: m.Hidden, index: m.Index}
		for _, raw := range m.Parts {
			if p, ok := partOf(raw); ok {
				msg.Parts = append(msg.Parts, p)
			}
		}
		out = append(out, msg)
	}
	return out
}

// partOf reads a part; false for one that says nothing to a model.
func partOf(raw chunk.Value) (Part, bool) {
	var p struct {
		Type       PartType    `json:"type"`
		Text       string      `json:"text"`
		ToolName   string      `json:"toolName"`
		ToolCallID string      `json:"toolCallId"`
		State      CallState   `json:"state"`
		Input      chunk.Value `json:"input"`
		Output     chunk.Value `json:"output"`
		ErrorText  string      `json:"errorText"`
		Approval   struct {
			Reason string `json:"reason"`
		} `json:"approval"`
		URL       string `json:"url"`
		MediaType string `json:"mediaType"`
		Filename  string `json:"filename"`
	}
	if err := json.Unmarshal(raw, &p); err != nil || p.Type == "step-start" {
		return Part{}, false
	}
	part := Part{Type: p.Type, Raw: raw}
	switch p.Type {
	case PartText, PartReasoning:
		part.Text = p.Text
	case PartTool:
		part.Tool = &ToolCall{ID: p.ToolCallID, Name: p.ToolName, Input: p.Input, State: p.State, Output: p.Output, Error: p.ErrorText}
		if p.State == CallDenied {
			part.Tool.Error = deniedText(p.Approval.Reason)
		}
	case PartFile:
		part.File = &File{URL: p.URL, MediaType: p.MediaType, Filename: p.Filename}
	}
	return part, true
}

func deniedText(reason string) string {
	if reason == "" {
		return "the call was not allowed"
	}
	return "the call was not allowed: " + reason
}
