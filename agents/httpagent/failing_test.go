package httpagent

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector/fold"
)

// hang blocks until the client cancels the request.
func hang(r *http.Request) { <-r.Context().Done() }

// Every failure of an endpoint has a code, and what was written before it is kept. Nothing of an error response is shown to users.
func TestFailures(t *testing.T) {
	answer := func(status int, header, body string) func(http.ResponseWriter, *http.Request) {
		return func(rw http.ResponseWriter, _ *http.Request) {
			name, value, _ := strings.Cut(header, ": ")
			rw.Header().Set(name, value)
			rw.WriteHeader(status)
			_, _ = rw.Write([]byte(body)) // the client may not read it
		}
	}
	half := answerOf(text("Half."))[:4]
	stream := func(more ...string) func(http.ResponseWriter, *http.Request) {
		return func(rw http.ResponseWriter, _ *http.Request) {
			sse(rw, append(append([]string(nil), half...), more...)...)
		}
	}
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect to another host was followed") }))
	defer other.Close()
	short := func(field func(*Config) *time.Duration) func(*Config) {
		return func(c *Config) { *field(c) = 50 * time.Millisecond }
	}
	for name, c := range map[string]struct {
		serve    func(http.ResponseWriter, *http.Request)
		shape    func(*Config)
		code     string
		message  string // of users; that of the code if empty
		attempts int    // 1 if 0
		kept     bool   // the text that was sent before
	}{
		"500":                     {serve: answer(500, "Content-Type: text/html", "<h1>secret stack</h1>"), code: CodeRejected},
		"404":                     {serve: answer(404, "Content-Type: text/plain", "secret"), code: CodeRejected},
		"401":                     {serve: answer(401, "Content-Type: text/plain", "secret"), code: CodeRejected},
		"204":                     {serve: answer(204, "X: y", ""), code: CodeRejected},
		"HTML":                    {serve: answer(200, "Content-Type: text/html", "<html>secret</html>"), code: CodeInvalid},
		"a text stream":           {serve: answer(200, "Content-Type: text/plain; charset=utf-8", "Half."), code: CodeInvalid},
		"429 indefinitely":        {serve: answer(429, "Retry-After: 0", ""), code: CodeRateLimited, attempts: 5},
		"429 for an hour":         {serve: answer(429, "Retry-After: 3600", ""), code: CodeRateLimited},
		"503 indefinitely":        {serve: answer(503, "X: y", "secret"), code: CodeUnavailable, attempts: 5},
		"a redirect to a host":    {serve: answer(307, "Location: "+other.URL, ""), code: CodeRedirected},
		"a redirect to a GET":     {serve: answer(303, "Location: /elsewhere", ""), code: CodeRedirected},
		"redirects in a circle":   {serve: answer(307, "Location: /api/chat", ""), code: CodeRedirected, attempts: 4},
		"not JSON":                {serve: stream("nonsense secret"), code: CodeInvalid, kept: true},
		"an end without a finish": {serve: stream(), code: CodeConnectionLost, kept: true},
		"a broken connection": {serve: func(rw http.ResponseWriter, r *http.Request) {
			stream()(rw, r)
			panic(http.ErrAbortHandler)
		}, code: CodeConnectionLost, kept: true},
		"an error part":            {serve: stream(`{"type":"error","errorText":"The model is on strike."}`), code: CodeFailed, message: "The model is on strike.", kept: true},
		"an error part and [DONE]": {serve: stream(`{"type":"error","errorText":"On strike."}`, `{"type":"finish"}`, "[DONE]"), code: CodeFailed, message: "On strike.", kept: true},
		"an abort":                 {serve: stream(`{"type":"abort"}`, "[DONE]"), code: CodeAborted, kept: true},
		"a giant event":            {serve: stream(`{"type":"text-delta","id":"t","delta":"` + strings.Repeat("x", 4096) + `"}`), shape: func(c *Config) { c.MaxEventBytes = 4000 }, code: CodeTooLarge, kept: true},
		"a giant line without end": {serve: func(rw http.ResponseWriter, r *http.Request) {
			stream()(rw, r)
			for r.Context().Err() == nil {
				_, _ = rw.Write([]byte(strings.Repeat("x", 1024))) // the client ends the request
			}
		}, shape: func(c *Config) { c.MaxEventBytes = 4000 }, code: CodeTooLarge, kept: true},
		"an endless stream": {serve: func(rw http.ResponseWriter, r *http.Request) {
			stream()(rw, r)
			for r.Context().Err() == nil {
				sse(rw, `{"type":"message-metadata","messageMetadata":{}}`)
			}
		}, shape: func(c *Config) { c.MaxResponseBytes = 10_000 }, code: CodeTooLarge, kept: true},
		"an endless slow stream": {serve: func(rw http.ResponseWriter, r *http.Request) {
			stream()(rw, r)
			for r.Context().Err() == nil {
				sse(rw, `{"type":"message-metadata","messageMetadata":{}}`)
			}
		}, shape: short(func(c *Config) *time.Duration { return &c.Timeout }), code: CodeTimeout, kept: true},
		"silence": {serve: func(rw http.ResponseWriter, r *http.Request) {
			stream()(rw, r)
			hang(r)
		}, shape: short(func(c *Config) *time.Duration { return &c.IdleTimeout }), code: CodeTimeout, kept: true},
		"no response":         {serve: func(_ http.ResponseWriter, r *http.Request) { hang(r) }, shape: short(func(c *Config) *time.Duration { return &c.ResponseTimeout }), code: CodeTimeout},
		"a closed connection": {serve: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, code: CodeUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			w := newEnv(t, func(rw http.ResponseWriter, r *http.Request, _ post) { c.serve(rw, r) })
			shape := c.shape
			if shape == nil {
				shape = func(*Config) {}
			}
			w.serve(w.agent(shape))
			s := w.ask("Well?")
			f := w.wantFailure(s, c.code)
			message := c.message
			if message == "" {
				message = userMessages[c.code]
			}
			w.want(f.Message, message, "message")
			if n := len(w.requests()); n != max(1, c.attempts) {
				t.Errorf("%d requests, want %d", n, max(1, c.attempts))
			}
			var kept string
			for _, m := range w.Snapshot(s).Messages(1) {
				kept += m.Text()
			}
			if (kept == "Half.") != c.kept {
				t.Errorf("text %q", kept)
			}
			for _, rec := range w.Records(s) {
				if strings.Contains(string(rec.Data), "secret") && !strings.Contains(string(rec.Type), "run_started") {
					t.Errorf("the log has %s", rec.Data)
				}
			}
		})
	}
}

// A request that the endpoint refuses for now is sent again.
func TestRetries(t *testing.T) {
	w := newEnv(t, func(rw http.ResponseWriter, _ *http.Request, p post) {
		if p.n < 4 {
			rw.Header().Set("Retry-After", "0")
			rw.WriteHeader([]int{429, 502, 503}[p.n-1])
			return
		}
		sse(rw, answerOf(text("Here."))...)
	})
	w.serve(w.agent())
	w.wantText(w.ask("Well?"), "Here.")
}

// An endpoint that is down fails the run after a bounded number of attempts, and a redirect on the same host is followed.
func TestUnreachable(t *testing.T) {
	w := newEnv(t, func(rw http.ResponseWriter, r *http.Request, _ post) {
		if r.URL.Path == "/api/chat" {
			http.Redirect(rw, r, "/api/chat/", http.StatusPermanentRedirect)
			return
		}
		sse(rw, answerOf(text("Here."))...)
	})
	closed := httptest.NewServer(nil)
	url := closed.URL
	closed.Close()
	down, up := w.agent(func(c *Config) { c.URL = url }), w.agent()
	p := w.serve(down)
	w.wantFailure(w.ask("Well?"), CodeUnavailable)
	if n := strings.Count(w.logOutput.String(), "agent request failed"); n != 5 {
		t.Errorf("%d attempts logged, want 5", n)
	}
	if strings.Contains(w.logOutput.String(), url+"/") {
		t.Error("the log has the URL")
	}
	p.Stop()
	w.serve(up)
	w.wantText(w.ask("Well?"), "Here.")
}

// A configuration that cannot work is refused, without its secrets.
func TestConfig(t *testing.T) {
	for name, cfg := range map[string]Config{
		"URL is invalid":       {URL: "ftp://secret"},
		"URL has a user":       {URL: "https://u:secret@a.example"},
		"there is no dialect":  {URL: "https://a.example", Dialect: "morse"},
		"OnCrash is":           {URL: "https://a.example", OnCrash: "cry"},
		`"Host" cannot be set`: {URL: "https://a.example", Headers: map[string]string{"Host": "secret"}},
		"invalid value of X":   {URL: "https://a.example", Headers: map[string]string{"X": "secret\n"}},
		`"a b" cannot be set`:  {URL: "https://a.example", ForwardHeaders: []string{"a b"}},
		"MaxEventBytes is -1":  {URL: "https://a.example", MaxEventBytes: -1},
	} {
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The same answer comes out of any split of its bytes.
func TestSplitBody(t *testing.T) {
	body := "\xEF\xBB\xBF: comment\r\nevent: x\ndata: {\"type\":\"start\"}\r\n\r\n"
	for _, p := range answerOf(text("Grüße, Žižka! \U0001F600"))[1:] {
		body += "id: 1\ndata:" + p + "\n\n"
	}
	for split := 1; split < 40; split += 3 {
		w := strings.NewReader(body)
		r := newEventReader(&piecewise{r: w, n: split}, false, 1000, nil)
		var got []string
		for {
			data, err := r.next()
			if err != nil {
				break
			}
			got = append(got, string(data))
		}
		if want := append([]string{`{"type":"start"}`}, answerOf(text("Grüße, Žižka! \U0001F600"))[1:]...); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("split after %d bytes: %q", split, got)
		}
	}
}

// piecewise reads at most n bytes at once.
type piecewise struct {
	r *strings.Reader
	n int
}

func (p *piecewise) Read(buf []byte) (int, error) { return p.r.Read(buf[:min(len(buf), p.n)]) }

// The log of a response does not depend on how its bytes arrive.
func TestSplitResponse(t *testing.T) {
	var body strings.Builder
	for _, p := range answerOf(text("One "), locate[:4], []string{`{"type":"tool-output-available","toolCallId":"c1","output":1}`, `{"type":"finish-step"}`}, text("two.")) {
		fmt.Fprintf(&body, "data: %s\n\n", p)
	}
	w := newEnv(t, func(rw http.ResponseWriter, _ *http.Request, p post) {
		rw.Header().Set("Content-Type", "text/event-stream")
		for rest := body.String(); rest != ""; {
			n := min(len(rest), 1+p.n*p.n*7)
			if _, err := rw.Write([]byte(rest[:n])); err != nil {
				t.Error(err)
			}
			rw.(http.Flusher).Flush() //nolint:forcetypeassert // of net/http
			rest = rest[n:]
		}
	})
	w.serve(w.agent())
	var first string
	for i := range 8 {
		s := w.ask("Well?")
		w.AwaitStatus(s, fold.Ended)
		var log, open string // pieces of one text are joined as they are stored
		for _, b := range w.Bodies(s) {
			if d, ok := b.(chunk.TextDelta); ok {
				open += d.Delta
				continue
			}
			typ := chunk.Chunk{Body: b}.Type()
			line := []byte(typ)
			if !strings.HasPrefix(string(line), "step_") && typ != chunk.TypeCheckpointCreated { // their ids are made of that of the session
				var err error
				if line, err = (chunk.Chunk{AgentID: s.ID, AgentType: "app", Body: b}).AppendJSON(nil); err != nil {
					t.Fatal(err)
				}
			}
			log += open + "\n" + strings.ReplaceAll(string(line), s.ID, "S")
			open = ""
		}
		if i == 0 {
			first = log
		} else {
			w.want(log, first, "log")
		}
	}
}
