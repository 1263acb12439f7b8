package demo

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/access"
	"github.com/tailrace/tailrace/internal/audit"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/demo/script"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/subjects"
)

// HandlerConfig configures the handler. Queue and Shared are required.
type HandlerConfig struct {
	Queue  CommandPublisher
	Shared *access.Shared // of the edge: rights and sessions of its clients
	Logger *slog.Logger   // gets failed requests of runs; nil disables logging
}

// CommandPublisher publishes commands. *jscontrol.Queue implements it.
type CommandPublisher interface {
	Publish(ctx context.Context, c control.Command) error
}

// Handler is a surface of an edge.
type Handler struct {
	*httpkit.Surface

	cfg     HandlerConfig
	respond *httpkit.Responder
}

// NewHandler serves
//
//	POST /v1/demo/runs        {"scenario":"tour","session":"…"}  starts a run
//	GET  /v1/demo/scenarios   lists the scenarios
//
// POST answers 202 with {"session","run"} once the command is stored; without a session it creates one.
// Errors are application/problem+json with a stable member "code".
func NewHandler(cfg HandlerConfig) (*Handler, error) {
	if cfg.Queue == nil || cfg.Shared == nil {
		return nil, errors.New("demo handler: want a queue and the settings of an edge")
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	h := &Handler{cfg: cfg, respond: &httpkit.Responder{Log: cfg.Logger}}
	var err error
	shared := *cfg.Shared
	shared.Origins = nil // the demo is for pages of the edge
	h.Surface, err = shared.NewSurface(h.routes(), httpkit.Options{OtherName: "demo_other", Head: true, Respond: h.respond})
	if err != nil {
		return nil, fmt.Errorf("demo handler: %w", err)
	}
	return h, nil
}

func (h *Handler) routes() []httpkit.Route {
	return []httpkit.Route{
		{Name: "demo_runs", Method: http.MethodPost, Path: "/v1/demo/runs", Scope: auth.ScopeChat, Act: audit.Start, Serve: h.runs},
		{Name: "demo_scenarios", Method: http.MethodGet, Path: "/v1/demo/scenarios", Scope: auth.ScopeRead, Serve: h.scenarios},
	}
}

// maxBody is the maximum size of a request body in bytes.
const maxBody = 8 << 10

// request is the body of POST /v1/demo/runs.
type request struct {
	Scenario string  `json:"scenario"`
	Session  *string `json:"session"` // nil creates one
}

const wantRequest = `want one JSON object: {"scenario":"tour"}, with "session" to continue one`

// runs starts a run.
func (h *Handler) runs(w http.ResponseWriter, r *http.Request, _ string) *httpkit.Problem {
	var req request
	if p := h.cfg.Shared.Bodies.JSON(w, r, httpkit.JSONLimits{Bytes: maxBody}, httpkit.IntoExactly(&req, wantRequest)); p != nil {
		return p
	}
	session, p := h.session(r.Context(), req)
	if p != nil {
		return p
	}
	c, p := newCommand(req)
	if p != nil {
		return p
	}
	g := httpkit.GrantOf(r.Context())
	c.Session, c.By = session, httpkit.PrincipalOf(g)
	audit.Describe(r.Context(), audit.Event{Session: session, Run: c.RunID})
	if err := h.cfg.Queue.Publish(r.Context(), c); errors.Is(err, control.ErrTooManyRuns) {
		return httpkit.TenantRuns
	} else if err != nil {
		h.cfg.Logger.WarnContext(r.Context(), "run request failed", "error", err)
		return problem(http.StatusServiceUnavailable, "QUEUE_UNAVAILABLE", "the work queue cannot be reached; try again")
	}
	w.Header().Set("Location", "/v1/sessions/"+url.PathEscape(c.Session.ID)+"/events")
	h.respond.JSON(w, http.StatusAccepted, map[string]string{"session": c.Session.ID, "run": c.RunID})
	return nil
}

// session returns the session of a request, which the client may use, or a new one.
func (h *Handler) session(ctx context.Context, req request) (chunk.Session, *httpkit.Problem) {
	if req.Session == nil {
		return chunk.RootSession(httpkit.GrantOf(ctx).Tenant, rand.Text()), nil
	}
	id := *req.Session
	if err := subjects.CheckID("session", id); err != nil {
		return chunk.Session{}, problem(http.StatusBadRequest, httpkit.CodeValidation, err.Error())
	}
	session, err := h.cfg.Shared.Access.Session(ctx, id, id)
	switch {
	case err != nil:
		h.cfg.Logger.WarnContext(ctx, "session not found out", "error", err)
		return session, problem(http.StatusServiceUnavailable, httpkit.CodeUnavailable, "the session cannot be reached; try again")
	case session.ID != id: // a run must not start in a session that no client can read
		return session, problem(http.StatusNotFound, httpkit.CodeNotFound, "there is no such session")
	}
	return session, nil
}

// newCommand returns the command of a request, without its session.
func newCommand(req request) (control.Command, *httpkit.Problem) {
	scenario, ok := script.Find(req.Scenario)
	if !ok {
		return control.Command{}, problem(http.StatusBadRequest, httpkit.CodeValidation, fmt.Sprintf("scenario %.60q: want one of GET /v1/demo/scenarios", req.Scenario))
	}
	chosen, err := json.Marshal(params{Scenario: &scenario.Name})
	if err != nil {
		return control.Command{}, httpkit.Internal
	}
	return control.Command{
		Kind: control.Execute, AgentType: script.AgentType, RunID: rand.Text(), Input: []chunk.InputMessage{{Content: scenario.Prompt}}, Params: chosen,
	}, nil
}

// problem returns a problem with a text for users.
func problem(status int, code, detail string) *httpkit.Problem {
	return httpkit.NewProblem(status, code, http.StatusText(status), detail)
}

// scenarios lists the scenarios.
func (h *Handler) scenarios(w http.ResponseWriter, _ *http.Request, _ string) *httpkit.Problem {
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
	h.respond.JSON(w, http.StatusOK, map[string]any{"scenarios": all})
	return nil
}
