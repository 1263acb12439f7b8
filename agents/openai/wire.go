package openai

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/openai/openai-go/v3/option"

	"github.com/tailrace/tailrace/chunk"
)

// wire is one of the two APIs.
type wire interface {
	// ask sends the question and says the answer. Its error is the endpoint's,
	// the connection's, or that of the context, unless the speaker has one.
	ask(ctx context.Context, q question, p *speaker) (ending, error)
}

// question is what a model is asked.
type question struct {
	system string
	said   []entry
	tools  []*tool
	must   bool // the answer has to be a call
}

// ending is how an answer ended.
type ending struct {
	finish string // as the log names it
	spent  tokens
}

// The reasons for which a model stops.
const (
	finishStop     = "stop"
	finishLength   = "length"
	finishCalls    = "tool-calls"
	finishFiltered = "content-filter"
	finishOther    = "other"
)

// options are those of every request.
func (a *Agent) options() []option.RequestOption {
	list := []option.RequestOption{
		option.WithEnvironmentProduction(), option.WithHTTPClient(a.cfg.Client),
		option.WithMaxRetries(0), // we know what people have seen, the library does not
		option.WithMiddleware(listen),
	}
	if a.cfg.BaseURL != "" {
		list = append(list, option.WithBaseURL(a.cfg.BaseURL))
	}
	if a.cfg.Key != "" {
		list = append(list, option.WithAPIKey(string(a.cfg.Key)))
	}
	for name, value := range a.cfg.Body {
		list = append(list, option.WithJSONSet(name, value))
	}
	return list
}

// tokens are what answers took. The zero tokens are of an answer that nobody
// counted.
type tokens struct {
	in, out, cached, written int64
	known                    bool
}

// add counts another answer. Less than nothing is a server's mistake.
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

// vigil ends a context when nothing has come from the endpoint for too long.
type vigil struct {
	timer *time.Timer
	after time.Duration
}

type vigilKey struct{}

// watched is ctx until the endpoint is silent for d, or the function is called.
func watched(ctx context.Context, d time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	v := &vigil{after: d, timer: time.AfterFunc(d, func() { cancel(errSilence) })}
	return context.WithValue(ctx, vigilKey{}, v), func() {
		v.timer.Stop()
		cancel(nil)
	}
}

func (v *vigil) heard() { v.timer.Reset(v.after) }

// listen tells the vigil of a request whatever comes: also a comment, with which
// servers say that they are still there.
func listen(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	res, err := next(r)
	if v, ok := r.Context().Value(vigilKey{}).(*vigil); ok && err == nil {
		v.heard()
		res.Body = &heardBody{body: res.Body, vigil: v}
	}
	return res, err
}

type heardBody struct {
	body interface {
		Read(buf []byte) (int, error)
		Close() error
	}
	vigil *vigil
}

func (b *heardBody) Read(buf []byte) (int, error) {
	n, err := b.body.Read(buf)
	if n > 0 {
		b.vigil.heard()
	}
	return n, err
}

func (b *heardBody) Close() error { return b.body.Close() }
