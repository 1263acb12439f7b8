package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/internal/demo/page"
	"github.com/tailrace/tailrace/internal/demo/script"
	"github.com/tailrace/tailrace/subjects"
)

// HandlerConfig is what the HTTP side needs. Queue and Tenant have no default.
type HandlerConfig struct {
	Queue  Publishing
	Tenant string       // whose sessions it starts
	Logger *slog.Logger // hears why a run could not be asked for; defaults to no log
}

// Publishing takes commands. *commands.Queue fits.
type Publishing interface {
	Publish(ctx context.Context, c commands.Command) error
}

// NewHandler serves
//
//	POST /v1/demo/runs        {"scenario":"tour","session":"…"}  starts a run
//	GET  /v1/demo/scenarios   what can be started
//	GET  /                    the page, and the files beside it
//
// A run is answered with 202 and {"session","run"} once the command is stored;
// without a session it gets a new one. Errors are application/problem+json with
// a stable member "code".
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
	f := &front{HandlerConfig: cfg, origin: http.NewCrossOriginProtection()}
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/demo/runs", f.runs)
	mux.HandleFunc("/v1/demo/scenarios", f.scenarios)
	mux.HandleFunc("/v1/", func(w http.ResponseWriter, _ *http.Request) {
		problem{http.StatusNotFound, "NOT_FOUND", "there is no such resource"}.write(w)
	})
	mux.Handle("/", page.Handler())
	return mux, nil
}

type front struct {
	HandlerConfig

	origin *http.CrossOriginProtection
}

// runs starts a run.
func (f *front) runs(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		problem{http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED", "want POST"}.write(w)
		return
	}
	// A page of another origin must not start agents in the name of whoever
	// looks at it. Such a request says so itself, and without the JSON type,
	// which a form cannot send, nothing is read.
	if err := f.origin.Check(r); err != nil {
		problem{http.StatusForbidden, "CROSS_ORIGIN", "this request comes from a page of another origin"}.write(w)
		return
	}
	c, err := f.command(w, r)
	if err == nil {
		err = f.Queue.Publish(r.Context(), c)
	}
	if err != nil {
		f.refuse(w, r, err)
		return
	}
	w.Header().Set("Location", "/v1/sessions/"+c.Session.ID+"/events")
	answer(w, http.StatusAccepted, map[string]string{"session": c.Session.ID, "run": c.RunID})
}

// command reads a request.
func (f *front) command(w http.ResponseWriter, r *http.Request) (commands.Command, error) {
	asked, err := readRequest(w, r)
	if err != nil {
		return commands.Command{}, err
	}
	scenario, ok := script.Find(asked.Scenario)
	if !ok {
		return commands.Command{}, problem{http.StatusBadRequest, "VALIDATION_ERROR", fmt.Sprintf("scenario %.60q: want one of GET /v1/demo/scenarios", asked.Scenario)}
	}
	session := newID()
	if asked.Session != nil {
		session = *asked.Session
	}
	if err := subjects.CheckToken("session", session); err != nil {
		return commands.Command{}, problem{http.StatusBadRequest, "VALIDATION_ERROR", err.Error()}
	}
	chosen, err := json.Marshal(params{Scenario: &scenario.Name})
	if err != nil {
		return commands.Command{}, err
	}
	return commands.Command{
		Kind: commands.Execute, Session: chunk.RootSession(f.Tenant, session), AgentType: script.AgentType, RunID: newID(),
		Input: []chunk.InputMessage{{Content: scenario.Prompt}}, Params: chosen,
	}, nil
}

// refuse answers with what the caller can do about it; what is ours to know goes
// to the log.
func (f *front) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if p, ok := errors.AsType[problem](err); ok {
		p.write(w)
		return
	}
	f.Logger.WarnContext(r.Context(), "a run could not be asked for", "error", err)
	w.Header().Set("Retry-After", "1")
	problem{http.StatusServiceUnavailable, "QUEUE_UNAVAILABLE", "the work queue cannot be reached; try again"}.write(w)
}

// scenarios lists what can be started.
func (f *front) scenarios(w http.ResponseWriter, r *http.Request) {
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
