package httpagent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/outgoing"
	"github.com/tailrace/tailrace/internal/wait"
	"github.com/tailrace/tailrace/workers"
)

// ask posts the history and returns the response. life is the context of the response, ctx that of the step that asks. A *failure is the endpoint's.
func (a *Agent) ask(life, ctx context.Context, t *workers.Turn) (*answer, error) {
	text, err := json.Marshal(bodies[a.cfg.Dialect](t))
	if err != nil {
		return nil, fmt.Errorf("request for %s: %w", a.cfg.Dialect, err)
	}
	header, to := a.header(t), a.cfg.URL
	if a.cfg.Dialect == Mastra {
		to = mastraURL(to, t)
	}
	for attempt := 1; ; attempt++ {
		ans, err := a.attempt(life, ctx, to, header, text)
		f, ok := errors.AsType[*failure](err)
		if !ok {
			if ans != nil {
				ans.hasEnd = a.cfg.Response == dialect.OpenAI
				ans.tr, _ = newTranslator(a.cfg.Response, codec.Run{Session: t.Session().ID, AgentType: t.AgentType(), RunID: t.RunID(), Step: int64(t.Steps())})
			}
			return ans, err
		}
		delay, more := a.cfg.Retry.Next(attempt, f.after)
		if !f.retry || !more {
			return nil, f
		}
		a.cfg.Log.WarnContext(ctx, "agent request failed", "session", t.Session().String(), "run", t.RunID(), "code", f.code, "attempt", attempt, "delay", delay, "error", f.cause)
		if wait.Sleep(ctx, delay) != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// header returns the header of a request. The session and the run identify the conversation to endpoints that keep a state of their own.
func (a *Agent) header(t *workers.Turn) http.Header {
	h := make(http.Header)
	var params struct {
		Headers map[string]json.RawMessage `json:"headers"`
	}
	if len(a.cfg.ForwardHeaders) > 0 && json.Unmarshal(t.Params(), &params) == nil {
		for name, raw := range params.Headers {
			var value string
			if a.forwards(name) && json.Unmarshal(raw, &value) == nil {
				h.Set(name, value)
			}
		}
	}
	for name, value := range a.cfg.Headers {
		h.Set(name, value)
	}
	s := t.Session()
	h.Set("Tailrace-Tenant", s.Tenant)
	h.Set("Tailrace-Session", s.ID)
	h.Set("Tailrace-Run", t.RunID())
	if origin := t.Origin(); origin != nil {
		h.Set("Tailrace-Fork-Of", origin.Session)
	}
	h.Set("Idempotency-Key", fmt.Sprintf("%s/%s/%d", url.PathEscape(s.ID), t.RunID(), t.Steps()))
	h.Set("Content-Type", "application/json")
	h.Set("Accept", "text/event-stream, application/x-ndjson;q=0.9")
	h.Set("Accept-Encoding", "identity") // a server that compresses may hold back what it has written
	return h
}

func (a *Agent) forwards(name string) bool {
	return slices.ContainsFunc(a.cfg.ForwardHeaders, func(allowed string) bool { return strings.EqualFold(allowed, name) })
}

// attempt sends one request.
func (a *Agent) attempt(life, ctx context.Context, to string, header http.Header, body []byte) (*answer, error) {
	reqCtx, cancel := context.WithCancelCause(life)
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	defer stop()
	timer := outgoing.NewTimer(a.cfg.ResponseTimeout, func() { cancel(errResponseTimeout) })
	defer timer.Stop()
	timer.Start()
	req, err := http.NewRequestWithContext(reqCtx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		cancel(nil)
		return nil, errors.New("invalid request") // without the URL
	}
	req.Header = header
	res, err := a.client.Do(req)
	if err != nil {
		f := requestFailure(reqCtx, err)
		cancel(nil)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, f
	}
	lines, f := checkResponse(res)
	if f != nil {
		_ = res.Body.Close() // it was read as far as it is needed
		cancel(nil)
		return nil, f
	}
	return newAnswer(reqCtx, cancel, res.Body, lines, a.cfg, a.large), nil
}

// checkResponse returns the failure of a response that is not an answer. lines reports whether it is NDJSON.
func checkResponse(res *http.Response) (lines bool, f *failure) {
	if res.StatusCode != http.StatusOK {
		return false, statusFailure(res)
	}
	kind, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	switch {
	case err == nil && kind == "text/event-stream":
		return false, nil
	case err == nil && (kind == "application/x-ndjson" || kind == "application/jsonl" || kind == "application/ndjson"):
		return true, nil
	}
	text, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBody)) // what was read until the error is logged
	return false, failuref(CodeInvalid, "content type %q, want text/event-stream or application/x-ndjson: %s", res.Header.Get("Content-Type"), strings.ToValidUTF8(string(text), "\uFFFD"))
}
