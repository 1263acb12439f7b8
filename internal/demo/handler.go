package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/demo/page"
	"github.com/tailrace/tailrace/internal/demo/script"
	"github.com/tailrace/tailrace/subjects"
)

// HandlerConfig configures the handler. Queue and Tenant are required.
type HandlerConfig struct {
	Queue  CommandPublisher
	Tenant string       // tenant of the sessions
	Logger *slog.Logger // gets failed requests of runs; nil disables logging
}

// CommandPublisher publishes commands. *jscontrol.Queue implements it.
type CommandPublisher interface {
	Publish(ctx context.Context, c control.Command) error
}

// NewHandler serves
//
//	POST /v1/demo/runs        {"scenario":"tour","session":"…"}  starts a run
//	GET  /v1/demo/scenarios   lists the scenarios
//	GET  /                    the page and its files
//
// POST answers 202 with {"session","run"} once the command is stored; without a session it creates one.
// Errors are application/problem+json with a stable member "code".
func NewHandler(cfg HandlerConfig) (http.Handler, error) {
	if cfg.Queue == nil {
		return nil, errors.New("demo handler: want a queue")
	}
	if err := subjects.CheckToken("tenant", cfg.Tenant); err != nil {
		return nil, fmt.Errorf("demo handler: %w", err)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	h := &handler{HandlerConfig: cfg, origin: http.NewCrossOriginProtection()}
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/demo/runs", h.runs)
	mux.HandleFunc("/v1/demo/scenarios", h.scenarios)
	mux.HandleFunc("/v1/", func(w http.ResponseWriter, _ *http.Request) {
		problem{http.StatusNotFound, "NOT_FOUND", "there is no such resource"}.write(w)
	})
	mux.Handle("/", page.Handler())
	return mux, nil
}

type handler struct {
	HandlerConfig

	origin *http.CrossOriginProtection
}

// runs starts a run.
func (h *handler) runs(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		problem{http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED", "want POST"}.write(w)
		return
	}
	// A page of another origin must not start agents on behalf of its visitors. Browsers mark such requests,
	// and a form cannot send the JSON type.
	if err := h.origin.Check(r); err != nil {
		problem{http.StatusForbidden, "CROSS_ORIGIN", "this request comes from a page of another origin"}.write(w)
		return
	}
	c, err := h.command(w, r)
	if err == nil {
		err = h.Queue.Publish(r.Context(), c)
	}
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	w.Header().Set("Location", "/v1/sessions/"+c.Session.ID+"/events")
	answer(w, http.StatusAccepted, map[string]string{"session": c.Session.ID, "run": c.RunID})
}

// command parses a request.
func (h *handler) command(w http.ResponseWriter, r *http.Request) (control.Command, error) {
	req, err := readRequest(w, r)
	if err != nil {
		return control.Command{}, err
	}
	scenario, ok := script.Find(req.Scenario)
	if !ok {
		return control.Command{}, problem{http.StatusBadRequest, "VALIDATION_ERROR", fmt.Sprintf("scenario %.60q: want one of GET /v1/demo/scenarios", req.Scenario)}
	}
	session := newID()
	if req.Session != nil {
		session = *req.Session
	}
	if err := subjects.CheckToken("session", session); err != nil {
		return control.Command{}, problem{http.StatusBadRequest, "VALIDATION_ERROR", err.Error()}
	}
	chosen, err := json.Marshal(params{Scenario: &scenario.Name})
	if err != nil {
		return control.Command{}, err
	}
	return control.Command{
		Kind: control.Execute, Session: chunk.RootSession(h.Tenant, session), AgentType: script.AgentType, RunID: newID(),
		Input: []chunk.InputMessage{{Content: scenario.Prompt}}, Params: chosen,
	}, nil
}

// refuse answers with a problem. Internal errors are logged only.
func (h *handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if p, ok := errors.AsType[problem](err); ok {
		p.write(w)
		return
	}
	h.Logger.WarnContext(r.Context(), "run request failed", "error", err)
	w.Header().Set("Retry-After", "1")
	problem{http.StatusServiceUnavailable, "QUEUE_UNAVAILABLE", "the work queue cannot be reached; try again"}.write(w)
}

// scenarios lists the scenarios.
func (h *handler) scenarios(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		problem{http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED", "want GET"}.write(w)
		return
	}
	type scenario struct {
		Name    string `json:"name"`
		Title   string `json:"title"`
		Summary string `json:"summary"`
		Prompt  string `json:"prompt"`
	}
	var all []scenario
	for _, s := range script.Scenarios() {
		all = append(all, scenario{s.Name, s.Title, s.Summary, s.Prompt})
	}
	answer(w, http.StatusOK, map[string]any{"scenarios": all})
}
