//go:build e2e && record

package compat

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tailrace/tailrace/internal/testkit/openaitest"
)

// model is the model of the agents of the recorded chats. Its answer depends on the last
// message.
type model struct {
	agents string // file of agents
	url    string

	mu      sync.Mutex // guards held
	held    map[string]bool
	waiting chan string // messages whose answers stop in the middle
}

const agentsFile = `{"agents":{
  "assistant":{"system":"You help.","subagents":{"counter":"Counts words."},"tools":[
    {"name":"where","description":"Where the person is.","execute":"client"},
    {"name":"remove","description":"Removes a file.","url":%q,"approval":true}]},
  "counter":{"output":{"type":"object","properties":{"words":{"type":"integer"}},"required":["words"]}}}}`

func newModel(t *testing.T) *model {
	t.Helper()
	m := &model{held: make(map[string]bool), waiting: make(chan string, 8)}
	tool := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `{"removed":"notes.txt"}`)
	}))
	t.Cleanup(tool.Close)
	m.url = openaitest.Start(t, m.answer).URL
	m.agents = filepath.Join(t.TempDir(), "agents.json")
	if err := os.WriteFile(m.agents, fmt.Appendf(nil, agentsFile, tool.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *model) answer(r openaitest.Request) openaitest.Reply {
	last := r.Last()
	call := func(name, args string) openaitest.Reply {
		return openaitest.StreamReply(openaitest.Think("A tool?"), openaitest.Text("Let me see."), openaitest.Call{ID: fmt.Sprint("call_", r.N), Name: name, Args: args, Pieces: 2})
	}
	switch {
	case slices.Contains(r.Tools, "__finish__"):
		return call("__finish__", fmt.Sprintf(`{"words":%d}`, len(strings.Fields(last.Text))))
	case last.Role == "tool":
		return openaitest.StreamReply(openaitest.Text("It came to "), openaitest.Text(last.Text))
	case strings.Contains(last.Text, "where"):
		return call("where", `{}`)
	case strings.Contains(last.Text, "remove"):
		return call("remove", `{"file":"notes.txt"}`)
	case strings.Contains(last.Text, "count"):
		return call("subagent__counter", `{"message":"one two three"}`)
	case strings.Contains(last.Text, "refuse"):
		return openaitest.ErrorReply(http.StatusBadRequest, "invalid_request_error", "", "no such model")
	case strings.Contains(last.Text, "hold") && m.first(last.Text):
		return openaitest.StreamReply(openaitest.Text("Half an "), openaitest.Callback(func() { m.waiting <- last.Text }), openaitest.Wait(nil))
	}
	return openaitest.StreamReply(openaitest.Think("Hm."), openaitest.Text("An answer to: "), openaitest.Text(last.Text))
}

func (m *model) first(text string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.held[text]
	m.held[text] = true
	return !was
}

// assistant starts a worker of the agents with a model.
func (w *env) assistant(t *testing.T) *process {
	t.Helper()
	if w.model == nil {
		w.model = newModel(t)
	}
	return w.start(t, "worker", "TAILRACE_MODEL_URL="+w.model.url, "TAILRACE_MODEL_KEY="+openaitest.Key, "TAILRACE_MODEL=m1", "TAILRACE_AGENTS="+w.model.agents)
}
