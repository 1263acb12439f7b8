//go:build e2e

package agui

import (
	"encoding/json"
	"testing"

	"github.com/tailrace/tailrace/e2e/dialects/npm"
)

// thread is a request to client.mjs.
type thread struct {
	URL      string          `json:"url,omitempty"`
	ThreadID string          `json:"threadId,omitempty"`
	Cursor   string          `json:"cursor,omitempty"`
	Messages json.RawMessage `json:"messages,omitempty"`
	State    json.RawMessage `json:"state,omitempty"`
	Calls    []call          `json:"calls"`
	Input    json.RawMessage `json:"input,omitempty"` // a RunAgentInput to check
}

// call is a call of runAgent.
type call struct {
	Body *string `json:"body,omitempty"` // the response; nil: that of the URL
	Cut  bool    `json:"cut,omitempty"`  // the connection breaks after the body

	CutAfter  int    `json:"cutAfter,omitempty"`  // the connection breaks after this number of ids
	Reconnect bool   `json:"reconnect,omitempty"` // with Last-Event-ID
	AbortAt   string `json:"abortAt,omitempty"`   // type of the event at which the application aborts the request
	StopAt    string `json:"stopAt,omitempty"`    // type of the event at which the user stops the run

	Say     *string           `json:"say,omitempty"`
	Tools   []json.RawMessage `json:"tools,omitempty"`
	Results []json.RawMessage `json:"results,omitempty"`
	Resume  []json.RawMessage `json:"resume,omitempty"`
	Props   json.RawMessage   `json:"props,omitempty"`
	Clear   bool              `json:"clear,omitempty"` // forget the interrupts: the page was loaded again
}

// result is what the client has after the calls.
type result struct {
	Error    string           `json:"error"`
	Messages []map[string]any `json:"messages"`
	State    any              `json:"state"`
	Cursor   string           `json:"cursor"`
	Calls    []outcome        `json:"calls"`
	Logged   []string         `json:"logged"`
}

// outcome is that of one call.
type outcome struct {
	Error      *string          `json:"error"`
	Outcome    *runOutcome      `json:"outcome"`
	Failed     *string          `json:"failed"`
	Result     any              `json:"result"`
	Interrupts []map[string]any `json:"interrupts"`
	Sent       request          `json:"sent"`
}

// runOutcome is that of RUN_FINISHED.
type runOutcome struct {
	Type               string   `json:"type"`
	PendingToolCallIDs []string `json:"pendingToolCallIds"`
}

// request is what the client sent.
type request struct {
	Body   json.RawMessage `json:"body"`
	Accept string          `json:"accept"`
	Method string          `json:"method"`
}

// client is the process with the client.
var client = npm.Program{Name: "agui", Script: "client.mjs", Packages: "packages"}

// ask runs a thread.
func ask(t *testing.T, r thread) (v result) {
	t.Helper()
	client.Ask(t, r, &v)
	if v.Error != "" {
		t.Fatal(v.Error)
	}
	return v
}
