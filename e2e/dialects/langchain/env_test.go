//go:build e2e

package langchain

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/e2e/dialects/npm"
	"github.com/tailrace/tailrace/internal/chat"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/demo"
	"github.com/tailrace/tailrace/internal/demo/script"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/runs"
	"github.com/tailrace/tailrace/internal/testkit/authtest"
	"github.com/tailrace/tailrace/internal/testkit/stack"
	"github.com/tailrace/tailrace/workers"
)

var client = npm.Program{Name: "langchain", Script: "client.mjs", Packages: "packages"}

// thread is a request to client.mjs.
type thread struct {
	URL     string            `json:"url"`
	Thread  string            `json:"thread"`
	Turns   []step            `json:"turns,omitempty"`
	Cut     int               `json:"cut,omitempty"`
	Watch   bool              `json:"watch,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}

// step is a message of the user, or an answer to what the run waits for.
type step struct {
	Say    string `json:"say,omitempty"`
	ID     string `json:"id,omitempty"`
	Cancel string `json:"cancel,omitempty"` // cancels the run when an event has this text
	Answer any    `json:"answer,omitempty"`
}

// event is a protocol event.
type event struct {
	EventID string `json:"event_id"`
	Seq     int64  `json:"seq"`
	Method  string `json:"method"`
	Params  struct {
		Namespace []string       `json:"namespace"`
		Data      map[string]any `json:"data"`
	} `json:"params"`
}

// interrupt is a question as the client has it.
type interrupt struct {
	ID      string         `json:"interruptId"`
	Payload map[string]any `json:"payload"`
}

// result is what the client has.
type result struct {
	Fault  string   `json:"fault"`
	Failed string   `json:"failed"`
	Status int      `json:"status"`
	Error  string   `json:"error"`
	Logged []string `json:"logged"`

	Turns []struct {
		Run   string      `json:"run"`
		Ends  string      `json:"ends"`
		Asked []interrupt `json:"asked"`
	} `json:"turns"`
	Events   []event `json:"events"`
	Watched  []event `json:"watched"`
	Messages []struct {
		ID        string           `json:"id"`
		Namespace []string         `json:"namespace"`
		Blocks    []map[string]any `json:"blocks"`
	} `json:"messages"`
	Calls []struct {
		ID     string `json:"id"`
		Name   string `json:"name"`
		Input  any    `json:"input"`
		Output any    `json:"output"`
		Error  string `json:"error"`
	} `json:"calls"`
	Graphs []struct {
		Namespace []string       `json:"namespace"`
		Graph     string         `json:"graph"`
		Cause     map[string]any `json:"cause"`
		Tool      string         `json:"tool"`
		Output    any            `json:"output"`
	} `json:"graphs"`
	Values     []map[string]any `json:"values"`
	Interrupts []interrupt      `json:"interrupts"`
	State      state            `json:"state"`
	History    []state          `json:"history"`
	Tree       struct {
		Status   string `json:"status"`
		Children []struct {
			Namespace []string `json:"namespace"`
			Status    string   `json:"status"`
		} `json:"children"`
	} `json:"tree"`
	Get struct {
		Values map[string]any `json:"values"`
	} `json:"get"`
	Checkpoints []map[string]any `json:"checkpoints"`
	Bodies      []map[string]any `json:"bodies"`
}

// state is a ThreadState.
type state struct {
	Values map[string]any `json:"values"`
	Next   []string       `json:"next"`
	Tasks  []struct {
		Interrupts []struct {
			ID    string         `json:"id"`
			Value map[string]any `json:"value"`
		} `json:"interrupts"`
	} `json:"tasks"`
	Metadata struct {
		Step int64 `json:"step"`
	} `json:"metadata"`
	CreatedAt time.Time `json:"created_at"`
}

// edge is an edge with a worker of the demo agents.
type edge struct {
	t   *testing.T
	url string
}

func newEdge(t *testing.T, authenticator auth.Authenticator) *edge {
	t.Helper()
	return newEdgeWith(t, authenticator, demo.Agents(demo.ScaledPace(0)), func(front http.Handler) http.Handler { return front })
}

// newEdgeWith is newEdge with other agents, and with a handler around the edge.
func newEdgeWith(t *testing.T, authenticator auth.Authenticator, agents map[string]workers.Agent, around func(front http.Handler) http.Handler) *edge {
	t.Helper()
	s := stack.Start(t, stack.Options{})
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	if authenticator == nil {
		authenticator = authtest.None(t, "acme")
	}
	clients := stack.NewClients(t, s.NewProcess(natsauth.Edge).JS)
	logic, err := runs.New(clients.JS, runs.Config{Config: conversation.Config{AgentTypes: []string{script.AgentType}, Log: log}})
	must(err)
	form := aisdk.Options{ClientTool: func(name string) bool { return strings.HasPrefix(name, "browser") }}
	front, err := httpedge.New(clients.Log, clients.Reader, httpedge.Config{Authenticator: authenticator, AISDK: form, Log: log})
	must(err)
	_, err = chat.New(front, logic, chat.Config{Dialect: form})
	must(err)
	e := &edge{t: t, url: s.Serve(around(front), front.Run).URL}
	p := s.NewProcess(natsauth.Worker)
	worker, err := workers.New(p.JS, workers.Config{Agents: agents, ShutdownTimeout: workers.Off, RetryDelay: 20 * time.Millisecond, Log: log})
	must(err)
	t.Cleanup(func() {
		if err := worker.Close(); err != nil {
			t.Error(err)
		}
	})
	p.Go(worker.Run)
	return e
}

// run runs a thread with the client, and fails the test if the client fails.
func (e *edge) run(t *testing.T, r thread) result {
	t.Helper()
	v := e.try(t, r)
	if v.Failed != "" || v.Error != "" || len(v.Logged) > 0 {
		t.Fatalf("the client fails with %q, %q, and logs %q", v.Failed, v.Error, v.Logged)
	}
	return v
}

func (e *edge) try(t *testing.T, r thread) (v result) {
	t.Helper()
	r.URL = e.url
	client.Ask(t, r, &v)
	if v.Fault != "" {
		t.Fatal(v.Fault)
	}
	return v
}

// post sends a body below a thread and returns the status and the response.
func (e *edge) post(t *testing.T, method, path string, body []byte, header http.Header) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, e.url+"/api/langgraph/threads/"+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(req.Header, header)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.Header.Get("Content-Type") == "text/event-stream" {
		return resp.StatusCode, "stream"
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// follow opens the event stream of a thread, which ends with the test.
func (e *edge) follow(t *testing.T, id string, since int64, header http.Header) io.Reader {
	t.Helper()
	body := fmt.Sprintf(`{"channels":["messages","lifecycle","tools","input","custom","checkpoints","values"],"since":%d}`, since)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.url+"/api/langgraph/threads/"+id+"/stream/events", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(req.Header, header)
	req.Header.Set("Content-Type", "application/json")
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
	return resp.Body
}

// read returns the events of a thread from a record on, 0 for the last turn, until a number of runs has ended.
func (e *edge) read(t *testing.T, id string, since int64, ends int) (all []event) {
	t.Helper()
	lines := bufio.NewReader(e.follow(t, id, since, nil))
	for ends > 0 {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("%v after %d events", err, len(all))
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var ev event
		if err := json.Unmarshal([]byte(data), &ev); err != nil {
			t.Fatalf("%v in %q", err, data)
		}
		if all = append(all, ev); ev.isEnd() {
			ends--
		}
	}
	return all
}

// isEnd reports whether the event ends a run.
func (e event) isEnd() bool {
	return e.Method == "lifecycle" && len(e.Params.Namespace) == 0 && e.Params.Data["event"] != "running"
}

// asJSON returns a value as JSON, in which numbers and the order of members are equal for equal values.
func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// ids returns the ids of events, and fails the test if one is used twice.
func ids(t *testing.T, list []event) []string {
	t.Helper()
	var all []string
	for _, e := range list {
		all = append(all, e.EventID)
	}
	slices.Sort(all)
	if n := len(slices.Compact(slices.Clone(all))); n != len(all) {
		t.Errorf("%d of %d ids are used twice", len(all)-n, len(all))
	}
	return all
}
