package chat

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/jscontrol"
	"github.com/tailrace/tailrace/internal/jsvalues"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/testkit/authtest"
	"github.com/tailrace/tailrace/internal/testkit/posttest"
	"github.com/tailrace/tailrace/internal/testkit/stack"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/subjects"
	"github.com/tailrace/tailrace/workers"
)

// env is a server with the streams of Tailrace, edges, and a worker that runs the script of a test.
type env struct {
	*stack.Stack

	t testing.TB

	mu      sync.Mutex // guards handled
	handled []control.Command
}

const agentType = "support"

func newEnv(tb testing.TB) *env {
	tb.Helper()
	return &env{Stack: stack.Start(tb, stack.Options{}), t: tb}
}

// must fails the test if a constructor returns an error.
func must[T any](v T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return v
	}
}

// edge is one process that serves chats.
type edge struct {
	*stack.Site

	t       testing.TB
	front   *httpedge.Edge
	service *Service
	base    string // path of the chat, "" for that of s1
}

// edgeConfig is all that an edge of chats is made of.
type edgeConfig struct {
	Config

	edge    httpedge.Config
	storage func(chunk.Session) error
	ports   conversation.Ports
	log     func(httpedge.Log) httpedge.Log                                                                              // changes the log of the hub
	follow  func(ctx context.Context, root chunk.Session, after chunk.Position, through chunk.Seq) (recordStream, error) // nil is the hub
}

func (w *env) newEdge(change func(*edgeConfig)) *edge {
	w.t.Helper()
	clients := stack.NewClients(w.t, w.NewProcess(natsauth.Edge).JS)
	log := slog.New(slog.NewTextHandler(w.t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	cfg := edgeConfig{
		Config: Config{Dialect: aisdk.Options{ClientTool: func(name string) bool { return strings.HasPrefix(name, "browser") }}},
		edge:   httpedge.Config{Authenticator: authtest.None(w.t, "acme"), Log: log},
		ports: conversation.Ports{
			Snapshots: clients.Reader, Queue: clients.Queue, Inbox: clients.Inbox,
			Reaper: must(workers.NewReaper(clients.JS, workers.ReaperConfig{}))(w.t), Values: jsvalues.New(jsclient.New(clients.JS), subjects.Layout{}),
		},
	}
	if change != nil {
		change(&cfg)
	}
	var records httpedge.Log = clients.Log
	if cfg.log != nil {
		records = cfg.log(records)
	}
	front := must(httpedge.New(records, clients.Reader, cfg.edge))(w.t)
	logic := must(conversation.New(cfg.ports, conversation.Config{AgentTypes: []string{agentType}, Storage: cfg.storage, Log: log}))(w.t)
	e := &edge{t: w.t, front: front, service: must(New(front, logic, cfg.Config))(w.t)}
	if cfg.follow != nil {
		e.service.follow = cfg.follow
	}
	if testHistoryBytes > 0 {
		e.service.historyBytes = testHistoryBytes
	}
	e.Site = w.Serve(e.service.surface, front.Run)
	e.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	return e
}

// script handles a command after the run has started.
type script func(ctx context.Context, c control.Command, run *producers.Run, w *env) error

// work handles commands until the test ends. The run is started for the script.
func (w *env) work(do script) {
	w.t.Helper()
	producer := w.NewWriter(producers.Config{})
	p := w.NewProcess(natsauth.Worker)
	queue := must(jscontrol.NewQueue(p.JS, jscontrol.QueueConfig{RetryDelay: 10 * time.Millisecond}))(w.t)
	p.Go(func(ctx context.Context) error {
		return queue.Serve(ctx, []string{agentType}, func(ctx context.Context, c control.Command) error { return w.handle(ctx, producer, c, do) })
	})
}

func (w *env) handle(ctx context.Context, producer *producers.Producer, c control.Command, do script) error {
	snap, err := w.Reader.Snapshot(ctx, c.Session)
	if err == nil {
		if snap.Run.ID == c.RunID || slices.ContainsFunc(snap.PastRuns, func(r fold.Run) bool { return r.ID == c.RunID }) {
			return nil // redelivered
		}
	}
	w.mu.Lock()
	w.handled = append(w.handled, c)
	w.mu.Unlock()
	started := chunk.RunStarted{RunID: c.RunID, Mode: "execute", Input: c.Input, By: c.By}
	if c.Kind == control.Resume {
		started.Mode = c.Mode
	}
	run, err := producer.Start(ctx, c.Session, started, producers.AgentType(c.AgentType))
	if err != nil {
		return err
	}
	defer run.Close()
	if err := w.writeAnswers(ctx, c, snap.Pending, run); err != nil {
		return err
	}
	return do(ctx, c, run, w)
}

// writeAnswers writes the stored answers into the log, as a worker does first.
func (w *env) writeAnswers(ctx context.Context, c control.Command, pending []fold.PendingCall, run *producers.Run) error {
	for _, p := range pending {
		answers, err := w.Inbox.Answers(ctx, c.Session, p.RunID)
		if err != nil {
			return err
		}
		for _, a := range answers {
			if a.CallID != p.CallID {
				continue
			}
			var body chunk.Body
			switch end := (chunk.ToolEnd{ToolCallID: a.CallID, ToolName: p.ToolName, Result: a.Result}); {
			case a.Failed():
				end.Error, end.ErrorCode = &a.Error, &a.ErrorCode
				body = end
			case a.Kind == control.Approval:
				body = chunk.ToolApprovalResponse{ToolCallID: a.CallID, ToolName: p.ToolName, ApprovalID: a.ApprovalID, Approved: a.Approved}
			default:
				body = end
			}
			if err := run.EmitBody(ctx, body); err != nil {
				return err
			}
		}
	}
	return nil
}

// commands returns the commands that a worker has started.
func (w *env) commands() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]string, len(w.handled))
	for i, c := range w.handled {
		out[i] = string(c.Kind)
	}
	return out
}

// say writes a step of text.
func say(ctx context.Context, run *producers.Run, step int64, texts ...string) error {
	run.SetStep(step)
	bodies := []chunk.Body{chunk.StepStart{}}
	for _, text := range texts {
		bodies = append(bodies, chunk.TextDelta{Delta: text})
	}
	for _, body := range append(bodies, chunk.StepEnd{}) {
		if err := run.EmitBody(ctx, body); err != nil {
			return err
		}
	}
	return nil
}

// sayHalf writes a step that is kept, and stores the beginning of one that a cleanup to step 1 removes.
func sayHalf(ctx context.Context, run *producers.Run) error {
	if err := say(ctx, run, 1, "Kept. "); err != nil {
		return err
	}
	run.SetStep(2)
	for _, body := range []chunk.Body{chunk.StepStart{}, chunk.TextDelta{Delta: "Wrong"}} {
		if err := run.EmitBody(ctx, body); err != nil {
			return err
		}
	}
	_, err := run.Flush(ctx)
	return err
}

// Request bodies of a stock client, and their parts.
var user, chatBody, assistantMessage = posttest.User, posttest.Body, posttest.Assistant

// post sends a request to a path below the chat s1, and returns the response.
func (e *edge) post(path, body string) string {
	e.t.Helper()
	return e.do(http.MethodPost, path, body, nil)
}

func (e *edge) get(path string, header http.Header) string {
	e.t.Helper()
	return e.do(http.MethodGet, path, "", header)
}

// do returns a response as one word per chunk, with its main members; or its status and body.
func (e *edge) do(method, path, body string, header http.Header) string {
	e.t.Helper()
	resp, err := e.try(method, path, body, header)
	if err != nil {
		e.t.Error(err)
		return ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		e.t.Errorf("%v behind %q", err, text)
	}
	if resp.Header.Get("Content-Type") != "text/event-stream" {
		return strings.TrimSpace(fmt.Sprintf("%d %s", resp.StatusCode, text))
	}
	return brief(e.t, string(text))
}

func (e *edge) try(method, path, body string, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(e.t.Context(), method, e.URL+cmp.Or(e.base, "/api/chat/s1")+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, header)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	return e.Client().Do(req)
}

func brief(tb testing.TB, body string) string {
	tb.Helper()
	var out []string
	for line := range strings.Lines(body) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !ok {
			continue
		}
		out = append(out, word(tb, data))
	}
	return strings.Join(out, " ")
}

func word(tb testing.TB, data string) string {
	tb.Helper()
	if data == "[DONE]" {
		return "DONE"
	}
	var c struct {
		Type         string                 `json:"type"`
		MessageID    string                 `json:"messageId"`
		Delta        string                 `json:"delta"`
		ToolCallID   string                 `json:"toolCallId"`
		FinishReason string                 `json:"finishReason"`
		ErrorText    string                 `json:"errorText"`
		Output       json.RawMessage        `json:"output"`
		Data         conversation.Rejection `json:"data"`
	}
	if err := json.Unmarshal([]byte(data), &c); err != nil {
		tb.Errorf("%q: %v", data, err)
	}
	word := c.Type
	for _, more := range []string{c.MessageID, c.Delta, c.ToolCallID, c.FinishReason, c.ErrorText, string(c.Output), string(c.Data.Reason)} {
		if more != "" {
			word += "(" + more + ")"
		}
	}
	return word
}
