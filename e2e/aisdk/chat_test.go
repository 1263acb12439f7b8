//go:build e2e

package aisdk

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// chatPage is a Chat of the SDK in the judge's process.
type chatPage struct {
	judge *judge
	key   string
}

// chatState is how a Chat stands, and what it did so far.
type chatState struct {
	Status    string    `json:"status"`
	Error     string    `json:"error"`
	Messages  []message `json:"messages"`
	Requests  []request `json:"requests"`
	Finishes  []finish  `json:"finishes"`
	Errors    []string  `json:"errors"`
	ToolCalls []string  `json:"toolCalls"` // calls that the page was asked to run
	Data      []struct {
		Type string          `json:"type"`
		Data json.RawMessage `json:"data"`
	} `json:"data"`
}

type message struct {
	ID    string            `json:"id"`
	Role  string            `json:"role"`
	Parts []json.RawMessage `json:"parts"`
}

type request struct {
	Method  string            `json:"method"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	Body    struct {
		Trigger   string    `json:"trigger"`
		MessageID string    `json:"messageId"`
		Messages  []message `json:"messages"`
	} `json:"body"`
}

type finish struct {
	ID           string `json:"id"`
	IsAbort      bool   `json:"isAbort"`
	IsDisconnect bool   `json:"isDisconnect"`
	IsError      bool   `json:"isError"`
	FinishReason string `json:"finishReason"`
}

// open makes a Chat, see judge.mjs for what it can be given.
func (j *judge) open(tb testing.TB, with map[string]any) *chatPage {
	tb.Helper()
	j.mu.Lock()
	c := &chatPage{judge: j, key: fmt.Sprintf("chat-%d", j.last)}
	j.mu.Unlock()
	with["chat"] = c.key
	var s chatState
	j.ask(tb, "open", with, &s)
	tb.Cleanup(func() {
		if err := j.tryAsk("close", map[string]any{"chat": c.key}, &struct{}{}); err != nil {
			tb.Error(err)
		}
	})
	return c
}

// act calls a method of the Chat and waits until it rests.
func (c *chatPage) act(tb testing.TB, do string, args ...any) chatState {
	tb.Helper()
	var s chatState
	c.judge.ask(tb, "act", map[string]any{"chat": c.key, "do": do, "args": args}, &s)
	return s
}

// begin calls a method and does not wait for it.
func (c *chatPage) begin(tb testing.TB, do string, args ...any) {
	tb.Helper()
	var s chatState
	c.judge.ask(tb, "act", map[string]any{"chat": c.key, "do": do, "args": args, "wait": false}, &s)
}

// until waits for a status, a text, a number of requests.
func (c *chatPage) until(tb testing.TB, what map[string]any) chatState {
	tb.Helper()
	what["chat"] = c.key
	var s chatState
	c.judge.ask(tb, "until", what, &s)
	return s
}

// answer gives an answer of a person to the Chat, and waits until what it posted
// because of that is through.
func (c *chatPage) answer(tb testing.TB, a answer) {
	tb.Helper()
	switch {
	case a.Approved != nil:
		c.act(tb, "approve", map[string]any{"id": "run::" + a.ToolCallID, "approved": *a.Approved, "reason": a.Reason})
	case a.ErrorText != nil:
		c.act(tb, "output", map[string]any{"toolCallId": a.ToolCallID, "state": "output-error", "errorText": *a.ErrorText})
	default:
		c.act(tb, "output", map[string]any{"toolCallId": a.ToolCallID, "output": a.Output})
	}
}

// String is what a person would see: "u1 Hi / A1 Hel + lo", preceded by "error: "
// when the last request failed. A message whose id the page made up is "?".
func (s chatState) String() string {
	var bubbles []string
	for _, m := range s.Messages {
		var parts []string
		for _, raw := range m.Parts {
			if text := sketch(raw); text != "" {
				parts = append(parts, text)
			}
		}
		id := m.ID
		if strings.HasPrefix(id, "chat-") {
			id = "?"
		}
		bubbles = append(bubbles, id+" "+strings.Join(parts, " + "))
	}
	text := strings.Join(bubbles, " / ")
	if s.Status == "error" {
		return "error: " + text
	}
	return text
}

// sketch is one part: the text, or "search(output-available)" of a tool.
func sketch(raw json.RawMessage) string {
	var p struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		ToolName string `json:"toolName"`
		State    string `json:"state"`
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return err.Error()
	}
	switch p.Type {
	case "step-start":
		return ""
	case "text":
		return p.Text
	case "dynamic-tool":
		return p.ToolName + "(" + p.State + ")"
	default:
		return p.Type
	}
}

// posts counts the requests that were no reconnects.
func (s chatState) posts() int {
	n := 0
	for _, r := range s.Requests {
		if r.Method == http.MethodPost {
			n++
		}
	}
	return n
}

// told reports whether the page was given data of a type.
func (s chatState) told(kind string) bool {
	for _, d := range s.Data {
		if d.Type == kind {
			return true
		}
	}
	return false
}

// approvalOf is the id of the approval that a part asks for, "" if it does not.
func approvalOf(raw json.RawMessage) string {
	var p struct {
		State    string `json:"state"`
		Approval struct {
			ID string `json:"id"`
		} `json:"approval"`
	}
	if err := json.Unmarshal(raw, &p); err != nil || p.State != "approval-requested" {
		return ""
	}
	return p.Approval.ID
}
