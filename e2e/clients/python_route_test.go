//go:build e2e

package clients

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/agents/httpagent"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/roletest"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/workers"
)

// pydanticSubstitute has the names of Pydantic AI that the example uses. Its adapter refuses what that of the package refuses, and streams what it streams.
const pydanticSubstitute = `import json
from fastapi.responses import StreamingResponse

class VercelAIAdapter:
    @classmethod
    async def dispatch_request(cls, request, *, agent, sdk_version):
        body = await request.json()
        assert body["trigger"] == "submit-message" and body["id"] and sdk_version == 6, body
        question = "".join(part["text"] for part in body["messages"][-1]["parts"])
        call = {"toolCallId": "c1", "toolName": "track"}
        parts = [
            {"type": "start"}, {"type": "start-step"}, {"type": "tool-input-start", **call}, {"type": "tool-input-delta", "toolCallId": "c1", "inputTextDelta": '{"parcel":7}'},
            {"type": "tool-input-available", **call, "input": {"parcel": 7}}, {"type": "tool-output-available", "toolCallId": "c1", "output": {"city": "Oslo"}},
            {"type": "finish-step"}, {"type": "start-step"}, {"type": "text-start", "id": "t1"}, {"type": "text-delta", "id": "t1", "delta": question},
            {"type": "text-delta", "id": "t1", "delta": " It is in Oslo."}, {"type": "text-end", "id": "t1"}, {"type": "finish-step"}, {"type": "finish", "finishReason": "stop"},
        ]
        lines = [f"data: {json.dumps(part)}\n\n" for part in parts] + ["data: [DONE]\n\n"]
        return StreamingResponse(iter(lines), media_type="text/event-stream", headers={"x-vercel-ai-ui-message-stream": "v1"})
`

// TestPydanticAI asks the route of docs/frameworks/pydantic-ai.md, with a substitute for the package, which needs a model.
func TestPydanticAI(t *testing.T) {
	b, w, dir := newPython(t), newEnv(t), t.TempDir()
	adapter := filepath.Join(dir, "pydantic_ai", "ui", "vercel_ai")
	w.must(os.MkdirAll(adapter, 0o700))
	w.must(os.WriteFile(filepath.Join(dir, "pydantic_ai", "__init__.py"), []byte("class Agent:\n    def __init__(self, model, *, instructions): ...\n"), 0o600))
	w.must(os.WriteFile(filepath.Join(adapter, "__init__.py"), []byte(pydanticSubstitute), 0o600))
	w.must(copyFile(filepath.Join("..", "..", "examples", "frameworks", "pydantic_ai_route.py"), dir))
	port := natstest.ReservePort(t)
	url := fmt.Sprintf("http://127.0.0.1:%d", port)
	route := exec.CommandContext(t.Context(), b.python, "-m", "uvicorn", "pydantic_ai_route:app", "--port", fmt.Sprint(port), "--log-level", "warning")
	route.Dir, route.Stdout, route.Stderr = dir, t.Output(), t.Output()
	w.must(route.Start())
	t.Cleanup(func() { _ = route.Wait() }) // the end of the context has killed it
	natstest.Eventually(t, "the route", func(ctx context.Context) error {
		_, err := roletest.Status(ctx, url+"/docs")
		return err
	})
	agent, err := httpagent.New(httpagent.Config{URL: url + "/api/chat"})
	w.must(err)
	p := w.NewProcess(natsauth.Worker)
	worker, err := workers.New(p.JS, workers.Config{Agents: map[string]workers.Agent{"helper": agent}, Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))})
	w.must(err)
	p.Go(worker.Run)
	w.must(w.Queue.Request(t.Context(), control.Command{
		Kind: control.Execute, Session: session("s"), AgentType: "helper", RunID: "r", Input: []chunk.InputMessage{{Content: "Where is my parcel?"}}, Issued: time.Now(),
	}, 0))
	snap := w.AwaitStatus(session("s"), fold.Ended)
	if got := w.text("s"); got != "Where is my parcel? It is in Oslo." || snap.Run.Step != 2 {
		t.Errorf("%q, %+v", got, snap)
	}
}

// TestPythonRoutes serves an application of FastAPI: a worker asks its agents, an exception fails the run, and a request starts a run that continues behind its response.
func TestPythonRoutes(t *testing.T) {
	b, w := newPython(t), newEnv(t)
	port := natstest.ReservePort(t)
	url := fmt.Sprintf("http://127.0.0.1:%d", port)
	b.script(t, "route.py", fmt.Sprint(port), w.ingestEdge())
	natstest.Eventually(t, "the application", func(ctx context.Context) error {
		_, err := roletest.Status(ctx, url+"/docs")
		return err
	})
	agents := map[string]workers.Agent{}
	for _, dialect := range []string{httpagent.Native, httpagent.AISDK} {
		agent, err := httpagent.New(httpagent.Config{URL: url + "/" + dialect, Dialect: dialect})
		w.must(err)
		agents[dialect] = agent
	}
	p := w.NewProcess(natsauth.Worker)
	worker, err := workers.New(p.JS, workers.Config{Agents: agents, Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))})
	w.must(err)
	p.Go(worker.Run)
	for dialect := range agents {
		for text, want := range map[string]fold.Status{"hello": fold.Ended, "fail": fold.Failed} {
			id := dialect + "-" + text
			w.must(w.Queue.Request(t.Context(), control.Command{
				Kind: control.Execute, Session: session(id), AgentType: dialect, RunID: "r", Input: []chunk.InputMessage{{Content: text}}, Issued: time.Now(),
			}, 0))
			snap := w.AwaitStatus(session(id), want)
			if got := w.text(id); got != "You said "+text {
				t.Errorf("%s: the text is %q", id, got)
			}
			if want == fold.Failed && !strings.Contains(fmt.Sprintf("%+v", snap.Failure), "the model is away") {
				t.Errorf("%s: the failure is %+v", id, snap.Failure)
			}
		}
	}
	for query, want := range map[string]fold.Status{"": fold.Ended, "?fail=true": fold.Failed} {
		const id = "started"
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/start/"+id+query, http.NoBody)
		w.must(err)
		res, err := http.DefaultClient.Do(req)
		w.must(err)
		var started struct {
			Session string `json:"session"`
			Run     string `json:"run"`
		}
		w.must(json.NewDecoder(res.Body).Decode(&started))
		w.must(res.Body.Close())
		if res.StatusCode != http.StatusAccepted || started.Session != id || started.Run == "" {
			t.Errorf("%d %+v", res.StatusCode, started)
		}
		w.Await(session(id), "the end of the run", func(s fold.Snapshot) bool { return s.Run.ID == started.Run && s.Status == want })
	}
}
