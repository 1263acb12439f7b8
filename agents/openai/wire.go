package openai

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/openai/openai-go/v3/option"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/openaistream"
)

// wire is one of the two APIs.
type wire interface {
	// ask sends the request and writes the response with p. The error is of the endpoint, the connection or
	// the context, unless p has one.
	ask(ctx context.Context, q request, p *stepWriter) (result, error)
}

// request is the input of a model call.
type request struct {
	system      string
	history     []entry
	tools       []*tool
	requireTool bool // the response must be a call
}

// result is the end of a response.
type result struct {
	finish string // in the terms of the log
	usage  tokens
}

// The finish reasons that the agent decides by.
const (
	finishStop     = openaistream.FinishStop
	finishCalls    = openaistream.FinishCalls
	finishFiltered = openaistream.FinishFiltered
)

// options returns the options of every request.
func (a *Agent) options() []option.RequestOption {
	list := []option.RequestOption{
		option.WithEnvironmentProduction(), option.WithHTTPClient(a.cfg.Client),
		option.WithMaxRetries(0), // the library does not know which output was written
		option.WithMiddleware(wrapBody),
	}
	if a.cfg.BaseURL != "" {
		list = append(list, option.WithBaseURL(a.cfg.BaseURL))
	}
	if a.cfg.Key != "" {
		list = append(list, option.WithAPIKey(string(a.cfg.Key)))
	}
	for name, value := range a.cfg.ExtraBody {
		list = append(list, option.WithJSONSet(name, value))
	}
	return list
}

// tokens are the token counts of responses, unknown in the zero value.
type tokens struct {
	in, out, cached, written int64
	known                    bool
}

// add adds the counts of another response. Negative counts are a server's mistake.
func (t *tokens) add(more tokens) {
	t.in += max(0, more.in)
	t.out += max(0, more.out)
	t.cached += max(0, more.cached)
	t.written += max(0, more.written)
	t.known = t.known || more.known
}

func (t *tokens) usage() chunk.Usage {
	count := func(n int64) chunk.Number { return chunk.Number(strconv.FormatInt(n, 10)) }
	u := chunk.Usage{InputTokens: count(t.in), OutputTokens: count(t.out)}
	if t.cached > 0 {
		u.CachedTokens = new(count(t.cached))
	}
	if t.written > 0 {
		u.CacheWriteTokens = new(count(t.written))
	}
	return u
}

// idleTimer cancels a context when the endpoint has sent no data for too long.
type idleTimer struct {
	timer *time.Timer
	after time.Duration
}

type idleTimerKey struct{}

// withIdleTimeout returns a context that is cancelled after d without data, or when the function is called. A negative d never
// expires.
func withIdleTimeout(ctx context.Context, d time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	if d < 0 {
		return ctx, func() { cancel(nil) }
	}
	v := &idleTimer{after: d, timer: time.AfterFunc(d, func() { cancel(errIdle) })}
	return context.WithValue(ctx, idleTimerKey{}, v), func() {
		v.timer.Stop()
		cancel(nil)
	}
}

func (v *idleTimer) reset() { v.timer.Reset(v.after) }

// wrapBody resets the idle timer of a request on any data, including comments that servers send as
// heartbeats.
func wrapBody(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	res, err := next(r)
	if v, ok := r.Context().Value(idleTimerKey{}).(*idleTimer); ok && err == nil {
		v.reset()
		res.Body = &timedBody{body: res.Body, idleTimer: v}
	}
	return res, err
}

type timedBody struct {
	body interface {
		Read(buf []byte) (int, error)
		Close() error
	}
	idleTimer *idleTimer
}

func (b *timedBody) Read(buf []byte) (int, error) {
	n, err := b.body.Read(buf)
	if n > 0 {
		b.idleTimer.reset()
	}
	return n, err
}

func (b *timedBody) Close() error { return b.body.Close() }
