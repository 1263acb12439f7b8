package ingest

import (
	"context"
	"errors"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/audit"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/ingestion"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/subjects"
)

// stateJSON is the response of most requests.
type stateJSON struct {
	ingestion.State

	Position string `json:"position"`
	Removed  *int   `json:"removed,omitempty"`
}

func shown(s ingestion.State) stateJSON { return stateJSON{State: s, Position: s.Position.String()} }

// timeout returns the context of a request without lines. It is not cancelled when the client disconnects: what is being stored stays stored.
func (s *Server) timeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), s.cfg.RequestTimeout)
}

// openRequest is the body of POST /runs.
type openRequest struct {
	RunID     string         `json:"runId"`
	AgentType string         `json:"agentType"`
	Mode      string         `json:"mode"`
	Input     jsontext.Value `json:"input"`
	Parent    jsontext.Value `json:"parent"`
	Model     jsontext.Value `json:"model"`
	Provider  jsontext.Value `json:"provider"`
	TakeOver  bool           `json:"takeOver"`
}

// read reads a JSON body. Without a body all members are left out.
func (s *Server) read(w http.ResponseWriter, r *http.Request, v any) *httpkit.Problem {
	if r.ContentLength == 0 {
		return nil
	}
	limits := httpkit.JSONLimits{Bytes: int64(s.cfg.MaxLine), Depth: chunk.MaxDepth}
	return s.shared.Bodies.JSON(w, r, limits, func(text []byte) *httpkit.Problem {
		if rawjson.Get(text, control.MemberBy) != nil {
			return httpkit.Invalid("leave out the member by: the server writes it, with the user of this request")
		}
		return httpkit.IntoExactly(v, "the body is not what this path takes", httpkit.Lenient)(text)
	})
}

func (s *Server) openRun(w http.ResponseWriter, r *http.Request, id string) *httpkit.Problem {
	session, fresh, p := s.session(r, id, true)
	if p != nil {
		return p
	}
	var b openRequest
	if p := s.read(w, r, &b); p != nil {
		return p
	}
	o, p := opening(r.Context(), session, b)
	if p != nil {
		return p
	}
	o.Fresh = fresh
	e := audit.Event{Act: audit.OpenRun, Session: session, Run: b.RunID}
	if b.TakeOver {
		e.Act = audit.TakeOverRun
	}
	return s.respond.Act(r.Context(), e, func() *httpkit.Problem {
		ctx, cancel := s.timeout(r.Context())
		defer cancel()
		state, existed, err := s.runs.Open(ctx, o)
		if err != nil {
			s.logUnavailable(ctx, session, err)
			return problemOf(err)
		}
		audit.Describe(r.Context(), audit.Event{Run: state.Run})
		status := http.StatusCreated
		if existed {
			status = http.StatusOK
		}
		s.respond.JSON(w, status, shown(state))
		return nil
	})
}

// opening checks the members of a run as chunk.Decode does.
func opening(ctx context.Context, session chunk.Session, b openRequest) (ingestion.Opening, *httpkit.Problem) {
	o := ingestion.Opening{Session: session, AgentType: b.AgentType, TakeOver: b.TakeOver}
	if b.RunID != "" && subjects.CheckToken("runId", b.RunID) != nil {
		return o, badID
	}
	f := rawjson.Begin(nil)
	f.String("type", string(chunk.TypeRunStarted))
	f.String("agentId", session.ID)
	f.String("agentType", b.AgentType)
	f.Raw("timestamp", []byte("0"))
	f.String("runId", b.RunID)
	f.Int("epoch", 1)
	f.String("mode", b.Mode)
	for name, value := range map[string]jsontext.Value{"input": b.Input, "parent": b.Parent, "model": b.Model, "provider": b.Provider} {
		if len(value) > 0 && value.Kind() != 'n' {
			f.Raw(name, value)
		}
	}
	if len(b.Input) == 0 || b.Input.Kind() == 'n' {
		f.Raw("input", []byte("[]"))
	}
	c, err := chunk.Decode(f.End())
	if err != nil {
		p := httpkit.Invalid("the run is not valid")
		p.Detail = err.Error()
		return o, p
	}
	o.Started, _ = chunk.As[chunk.RunStarted](c)
	o.Started.By = httpkit.PrincipalOf(httpkit.GrantOf(ctx))
	return o, nil
}

func (s *Server) state(w http.ResponseWriter, r *http.Request, id string) *httpkit.Problem {
	run, p := s.run(r, id, false)
	if p != nil {
		return p
	}
	ctx, cancel := s.timeout(r.Context())
	defer cancel()
	state, err := s.runs.State(ctx, run)
	if err != nil {
		s.logUnavailable(ctx, run.Session, err)
		return problemOf(err)
	}
	s.respond.JSON(w, http.StatusOK, shown(state))
	return nil
}

func (s *Server) end(w http.ResponseWriter, r *http.Request, id string) *httpkit.Problem {
	var b struct {
		FinalOutput jsontext.Value `json:"finalOutput"`
	}
	return s.change(w, r, id, audit.EndRun, &b, func(ctx context.Context, to ingestion.Writer) (*int, error) {
		return nil, to.End(ctx, chunk.Value(b.FinalOutput))
	})
}

func (s *Server) fail(w http.ResponseWriter, r *http.Request, id string) *httpkit.Problem {
	var b struct {
		Error  string         `json:"error"`
		Detail jsontext.Value `json:"errorDetail"`
	}
	return s.change(w, r, id, audit.FailRun, &b, func(ctx context.Context, to ingestion.Writer) (*int, error) {
		detail, err := failure(b.Error, b.Detail)
		if err != nil {
			return nil, &ingestion.RefusalError{Reason: ingestion.ReasonInvalid, Text: err.Error()}
		}
		return nil, to.Fail(ctx, b.Error, detail)
	})
}

// failure decodes the detail of a failure.
func failure(message string, detail []byte) (*chunk.ErrorDetail, error) {
	f := rawjson.Begin(nil)
	f.String("type", string(chunk.TypeStreamFailed))
	f.String("agentId", "a")
	f.String("agentType", "")
	f.Raw("timestamp", []byte("0"))
	f.String("error", message)
	if len(detail) > 0 {
		f.Raw("errorDetail", detail)
	}
	c, err := chunk.Decode(f.End())
	failed, _ := chunk.As[chunk.StreamFailed](c)
	return failed.ErrorDetail, err
}

func (s *Server) pause(w http.ResponseWriter, r *http.Request, id string) *httpkit.Problem {
	var b struct {
		Reason string `json:"reason"`
	}
	return s.change(w, r, id, audit.PauseRun, &b, func(ctx context.Context, to ingestion.Writer) (*int, error) { return nil, to.Pause(ctx, b.Reason) })
}

func (s *Server) cleanup(w http.ResponseWriter, r *http.Request, id string) *httpkit.Problem {
	var b struct {
		Step  *int64 `json:"step"`
		After string `json:"after"`
	}
	return s.change(w, r, id, audit.CleanUpRun, &b, func(ctx context.Context, to ingestion.Writer) (*int, error) {
		after, ok := chunk.ParseCursor(b.After)
		if b.After != "" && !ok || b.Step == nil || *b.Step < 0 {
			return nil, &ingestion.RefusalError{Reason: ingestion.ReasonInvalid, Text: "step: want a number, and after: a cursor"}
		}
		removed, err := to.Cleanup(ctx, *b.Step, after.Seq)
		return &removed, err
	})
}

// change changes the state of a run with its body in b, and responds with the state.
func (s *Server) change(w http.ResponseWriter, r *http.Request, id string, act audit.Act, b any, f func(context.Context, ingestion.Writer) (removed *int, err error)) *httpkit.Problem {
	run, p := s.run(r, id, true)
	if p == nil {
		p = s.read(w, r, b)
	}
	if p != nil {
		return p
	}
	return s.respond.Act(r.Context(), audit.Event{Act: act, Session: run.Session, Run: run.ID}, func() *httpkit.Problem {
		ctx, cancel := s.timeout(r.Context())
		defer cancel()
		state, removed, err := s.apply(ctx, run, f)
		if err != nil {
			s.logUnavailable(ctx, run.Session, err)
			return problemOf(err)
		}
		out := shown(state)
		out.Removed = removed
		s.respond.JSON(w, http.StatusOK, out)
		return nil
	})
}

func (s *Server) apply(ctx context.Context, run ingestion.Run, f func(context.Context, ingestion.Writer) (*int, error)) (ingestion.State, *int, error) {
	ctx, release := s.take(ctx, run, false) // the lines of a request that is still being read are stored before
	defer release()
	to, err := s.runs.Attach(ctx, ingestion.Request{Run: run, First: 1})
	if err != nil {
		return ingestion.State{}, nil, err
	}
	removed, err := f(ctx, to)
	closed := to.Close(ctx)
	if err != nil {
		return ingestion.State{}, nil, err
	}
	if closed != nil {
		s.shared.Log.Debug("writer closed", "session", run.Session.String(), "error", closed)
	}
	state, err := s.runs.State(ctx, run)
	return state, removed, err
}

// logUnavailable logs the cause of a problem that tells the client nothing about it.
func (s *Server) logUnavailable(ctx context.Context, session chunk.Session, err error) {
	if p := problemOf(err); (p == unavailable || p == httpkit.EdgePermission) && !errors.Is(ctx.Err(), context.Canceled) {
		s.shared.Log.WarnContext(ctx, "run not written", "session", session.String(), "error", err)
	}
}
