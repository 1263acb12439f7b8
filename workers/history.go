package workers

import (
	"encoding/json"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector/fold"
)

// HistoryMessage is one entry of the history in the form that models use: a user message, or the output of
// one step.
type HistoryMessage struct {
	ID       string // "msg-<n>"; browsers show all steps of an answer under the id of the first
	Role     fold.Role
	ClientID string      // the client's own message id, "" if it has none
	Metadata chunk.Value // nil if it has none
	Hidden   bool        // shown to the model only
	Parts    []Part

	index int
}

// Text returns the text parts of the message, joined.
func (m HistoryMessage) Text() string {
	var b strings.Builder
	for _, p := range m.Parts {
		if p.Type == PartText {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

// Calls returns the tool calls of the message with their outcomes.
func (m HistoryMessage) Calls() []ToolCall {
	var calls []ToolCall
	for _, p := range m.Parts {
		if p.Tool != nil {
			calls = append(calls, *p.Tool)
		}
	}
	return calls
}

// PartType is the type of a part. Applications define types that begin with "data-".
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

// Part is one part of a message.
type Part struct {
	Type PartType
	Text string      // of text and reasoning
	Tool *ToolCall   // of a tool call
	File *File       // of a file
	Raw  chunk.Value // the part as browsers get it
}

// File is a file in a message.
type File struct {
	URL       string // a data URL or a hosted one
	MediaType string
	Filename  string // "" if it has none
}

// ToolCall is a tool call with its outcome.
type ToolCall struct {
	ID     string
	Name   string
	Input  chunk.Value
	State  CallState
	Output chunk.Value // of CallDone
	Error  string      // of CallFailed; the reason of CallDenied
}

// CallState is the state of a call.
type CallState string

// The states of a call.
const (
	CallStreaming        CallState = "input-streaming"    // its input is incomplete
	CallOpen             CallState = "input-available"    // without an outcome
	CallAwaitingApproval CallState = "approval-requested" // waits for a user's decision
	CallApproved         CallState = "approval-responded" // approved and not yet run, see Step.ApprovedCalls
	CallDone             CallState = "output-available"
	CallFailed           CallState = "output-error"
	CallDenied           CallState = "output-denied" // a user has denied it
)

// messagesOf converts the messages of the fold.
func messagesOf(list []fold.TranscriptMessage) []HistoryMessage {
	out := make([]HistoryMessage, 0, len(list))
	for _, m := range list {
		msg := HistoryMessage{ID: fold.MessageID(m.Index), Role: m.Role, ClientID: m.ClientID, Metadata: m.Metadata, Hidden: m.Hidden, index: m.Index}
		for _, raw := range m.Parts {
			if p, ok := partOf(raw); ok {
				msg.Parts = append(msg.Parts, p)
			}
		}
		out = append(out, msg)
	}
	return out
}

// partOf parses a part. It reports false for a part without content for a model.
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
		return "call denied"
	}
	return "call denied: " + reason
}
