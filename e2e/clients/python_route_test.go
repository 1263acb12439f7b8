//go:build e2e

package clients

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
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
