package openai

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/openaitest"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/workers"
)

type (
	text  = openaitest.Text
	think = openaitest.Think
)

// Whatever goes wrong in the first attempt, the second one answers, and nobody
// reads a word twice.
func TestFirstAttemptFails(t *testing.T) {
	half := []openaitest.Word{think("Hm. "), text("The answer "), text("is wr")}
	broken := func(last openaitest.Word) openaitest.Reply {
		return openaitest.Say(append(append([]openaitest.Word(nil), half...), last)...)
	}
	busy := openaitest.Error{Message: "overloaded", Type: "server_error", Code: "server_overloaded"}
	nulls := func(r openaitest.Reply) openaitest.Reply { r.Nulls = true; return r }
	cases := map[string]struct {
		first openaitest.Reply
		taken bool // something was said, and is taken back
	}{
		"429 with Retry-After":                {openaitest.Busy(0.02), false},
		"500":                                 {openaitest.Refuse(500, "server_error", "", "The server had an error"), false},
		"502 without JSON":                    {openaitest.Refuse(502, "", "", ""), false},
		"503":                                 {openaitest.Refuse(503, "server_error", "", "overloaded"), false},
		"an error before the first word":      {openaitest.Say(openaitest.Break(busy)), false},
		"a failed response":                   {openaitest.Say(openaitest.Failed{Message: "it failed", Code: "server_error"}), false},
		"cut before the first word":           {openaitest.Say(openaitest.Cut{}), false},
		"ended before the first word":         {openaitest.Say(openaitest.End{}), false},
		"an error in mid-stream":              {broken(openaitest.Break(busy)), true},
		"a rate limit in mid-stream":          {broken(openaitest.Break{Message: "slow", Code: "rate_limit_exceeded"}), true},
		"a response that fails in mid-stream": {broken(openaitest.Failed{Message: "it failed", Code: "server_error"}), true},
		"an error behind errors of null":      {nulls(broken(openaitest.Break(busy))), true},
		"ended behind errors of null":         {nulls(broken(openaitest.End{})), true},
		"cut in mid-stream":                   {broken(openaitest.Cut{}), true},
		"ended in mid-stream":                 {broken(openaitest.End{}), true},
		"half a JSON":                         {broken(openaitest.Raw("data: {\"id\":\"x\",\"choi\n\n")), true},
		"a call cut in its arguments":         {openaitest.Say(openaitest.Call{ID: "c", Name: "look_up", Args: `{"id":"1"}`, Pieces: 3}, openaitest.Cut{}), true},
	}
	for _, api := range apis {
		t.Run(string(api), func(t *testing.T) {
			w := newWorld(t)
			var first atomic.Pointer[openaitest.Reply]
			end := openaitest.Start(t, func(openaitest.Request) openaitest.Reply {
				if r := first.Swap(nil); r != nil {
					return *r
				}
				return openaitest.Say(think("Yes."), text("The answer "), text("is right."))
			})
			w.serve(map[string]workers.Agent{"clerk": w.agent(end, api)})
			for name, c := range cases {
				first.Store(&c.first)
				s := w.ask("clerk", "And?")
				snap := w.ended(s)
				w.want(answered(snap), "The answer is right.", name)
				w.want(partsText(snap, "reasoning"), "Yes.", name)
				if got := strings.Contains(w.types(s), "step_discarded"); got != c.taken {
					t.Errorf("%s: a step was taken back: %v, want %v", name, got, c.taken)
				}
				if strings.Contains(told(snap), "look_up") {
					t.Errorf("%s: the call is still there: %s", name, told(snap))
				}
			}
			if strings.Contains(w.heard.String(), openaitest.Key) {
				t.Error("the key is in the log")
			}
		})
	}
}

func (w *world) types(s chunk.Session) string {
	w.t.Helper()
	var names []string
	for _, b := range w.bodies(s) {
		names = append(names, string(b.Type()))
	}
	return strings.Join(names, " ")
}

// What an attempt has said is taken back before the next one speaks: nobody has a
// word twice, at no time.
func TestNothingIsShownTwice(t *testing.T) {
	for _, api := range apis {
		t.Run(string(api), func(t *testing.T) {
			w := newWorld(t)
			var s chunk.Session
			clean := openaitest.Do(func() {
				if snap, err := w.reader.Snapshot(context.WithoutCancel(t.Context()), s); err != nil || answered(snap) != "" {
					t.Errorf("before a word of an attempt readers see %q, %v", answered(snap), err)
				}
			})
			end := openaitest.Start(t, func(r openaitest.Request) openaitest.Reply {
				words := []openaitest.Word{clean, text("one "), text("two "), text("three ")}
				if r.N < 4 {
					return openaitest.Say(append(words[:r.N+1], openaitest.Cut{})...)
				}
				return openaitest.Say(words...)
			})
			s = chunk.RootSession("acme", fmt.Sprintf("s-%d", names.Add(1)))
			w.serve(map[string]workers.Agent{"clerk": w.agent(end, api)})
			w.askIn(s, "clerk", "r1", "Count.")
			w.want(answered(w.ended(s)), "one two three ", "text")
		})
	}
}

// What does not pass fails the run with its code, at once; what might is tried as
// often as it is allowed.
func TestFailures(t *testing.T) {
	late := openaitest.Busy(3600)
	never := openaitest.Refuse(503, "server_error", "", "no")
	never.Header.Set("X-Should-Retry", "false")
	cases := map[string]struct {
		reply     openaitest.Reply
		code      string
		retryable bool
		attempts  int
	}{
		"no quota":          {openaitest.Refuse(429, "insufficient_quota", "insufficient_quota", "You exceeded your quota"), CodeAuthFailed, false, 1},
		"403":               {openaitest.Refuse(403, "permission_error", "", "no"), CodeAuthFailed, false, 1},
		"bad request":       {openaitest.Refuse(400, "invalid_request_error", "", "Unknown parameter: 'x'"), CodeInvalidRequest, false, 1},
		"no such model":     {openaitest.Refuse(404, "invalid_request_error", "model_not_found", "The model does not exist"), CodeInvalidRequest, false, 1},
		"too long":          {openaitest.Refuse(400, "invalid_request_error", "context_length_exceeded", "maximum context length is 8192"), CodeContextExceeded, false, 1},
		"too long, unnamed": {openaitest.Refuse(400, "BadRequestError", "", "This model's maximum context length is 4096 tokens"), CodeContextExceeded, false, 1},
		"filtered prompt":   {openaitest.Refuse(400, "", "content_filter", "filtered"), CodeContentFiltered, false, 1},
		"always busy":       {openaitest.Busy(0), CodeRateLimited, true, 5},
		"busy for an hour":  {late, CodeRateLimited, true, 1},
		"do not retry":      {never, CodeOverloaded, false, 1},
		"overloaded":        {openaitest.Refuse(529, "overloaded_error", "", "overloaded"), CodeOverloaded, true, 5},
		"gateway":           {openaitest.Refuse(504, "", "", ""), CodeTimeout, true, 5},
		"unknown":           {openaitest.Say(openaitest.Break{Message: "odd", Code: "odd"}), CodeUnknown, false, 1},
		"filtered answer":   {openaitest.Reply{Finish: "content_filter"}, CodeContentFiltered, false, 1},
		"always cut":        {openaitest.Say(text("Well, "), openaitest.Cut{}), CodeUnavailable, true, 5},
	}
	for _, api := range apis {
		t.Run(string(api), func(t *testing.T) {
			w := newWorld(t)
			var reply atomic.Pointer[openaitest.Reply]
			end := openaitest.Start(t, func(openaitest.Request) openaitest.Reply { return *reply.Load() })
			w.serve(map[string]workers.Agent{"clerk": w.agent(end, api)})
			for name, c := range cases {
				before := len(end.Requests())
				reply.Store(&c.reply)
				s := w.ask("clerk", "And?")
				snap := w.awaitStatus(s, fold.Failed)
				d := snap.Failure.Detail
				if *d.Code != c.code || *d.Retryable != c.retryable || *d.Category != "provider" || snap.Failure.Message != sentences[c.code] {
					t.Errorf("%s: failed with %q, %q, %v, %q", name, *d.Code, *d.Category, *d.Retryable, snap.Failure.Message)
				}
				if got := len(end.Requests()) - before; got != c.attempts {
					t.Errorf("%s: %d attempts, want %d", name, got, c.attempts)
				}
			}
		})
	}
}

// Retry-After is kept: the second attempt comes no sooner.
func TestRetryAfter(t *testing.T) {
	w := newWorld(t)
	var times []time.Time
	end := openaitest.Start(t, func(r openaitest.Request) openaitest.Reply {
		times = append(times, time.Now())
		if r.N == 1 {
			return openaitest.Busy(0.25)
		}
		return openaitest.Say(text("Now."))
	})
	w.serve(map[string]workers.Agent{"clerk": w.agent(end, Chat)})
	w.want(answered(w.ended(w.ask("clerk", "And?"))), "Now.", "text")
	if d := times[1].Sub(times[0]); d < 250*time.Millisecond {
		t.Errorf("tried again after %s, want 250 ms", d)
	}
}

// An endpoint that says nothing for too long is asked again; one that only says
// that it is still there is waited for.
func TestSilence(t *testing.T) {
	for _, api := range apis {
		t.Run(string(api), func(t *testing.T) {
			w := newWorld(t)
			var left atomic.Int64
			end := openaitest.Start(t, func(r openaitest.Request) openaitest.Reply {
				if r.N == 1 {
					return openaitest.Say(text("Let me"), openaitest.Wait(r.Gone), openaitest.Do(func() { left.Add(1) }))
				}
				var words []openaitest.Word
				for range 8 {
					words = append(words, openaitest.Raw(": keep-alive\n\n"), openaitest.Wait(after(100*time.Millisecond)))
				}
				return openaitest.Say(append(words, text("Here I am."))...)
			})
			w.serve(map[string]workers.Agent{"clerk": w.agent(end, api, func(c *Config) { c.Silence = 500 * time.Millisecond })})
			w.want(answered(w.ended(w.ask("clerk", "And?"))), "Here I am.", "text")
			if got := len(end.Requests()); got != 2 {
				t.Errorf("%d requests, want 2", got)
			}
			if !strings.Contains(w.heard.String(), CodeTimeout) {
				t.Error("the log does not say that it was too slow")
			}
		})
	}
}

// after is closed when d has passed.
func after(d time.Duration) <-chan struct{} {
	c := make(chan struct{})
	time.AfterFunc(d, func() { close(c) })
	return c
}

// A key that is refused is neither shown nor logged, though the endpoint repeats it.
func TestKeyStaysSecret(t *testing.T) {
	w := newWorld(t)
	const key = "sk-someone-elses-0123"
	end := openaitest.Start(t, func(openaitest.Request) openaitest.Reply { return openaitest.Say(text("never")) })
	w.serve(map[string]workers.Agent{"clerk": w.agent(end, Chat, func(c *Config) { c.Key = key })})
	s := w.ask("clerk", "And?")
	snap := w.awaitStatus(s, fold.Failed)
	w.want(*snap.Failure.Detail.Code, CodeAuthFailed, "code")
	shown := w.heard.String() + fmt.Sprintf("%v %+v %#v", Secret(key), Config{Key: key}, Config{Key: key})
	for rec := range w.records(s) {
		shown += string(rec.Data)
	}
	if strings.Contains(shown, key) {
		t.Errorf("the key is in %s", shown)
	}
}

// An event has an error when that says something, in whatever form.
func TestProblemIn(t *testing.T) {
	for data, want := range map[string]problem{
		`{"error":{"message":"x","type":"y","code":"z"}}`:           {Message: "x", Type: "y", Code: "z"},
		`{"error":{"message":"x","code":503}}`:                      {Message: "x", Code: "503"},
		`{"error":{"message":"x","code":429,"metadata":{}},"id":1}`: {Message: "x", Code: "429"},
		`{"error":{"message":"x","code":null}}`:                     {Message: "x"},
		`{"error":"the context window is full"}`:                    {Message: "the context window is full"},
		`{"error":{"message":7}}`:                                   {Message: `{"message":7}`},
		`{"error":true}`:                                            {Message: "true"},
		`{"error":[1]}`:                                             {Message: "[1]"},
		`{"error":null}`:                                            {},
		`{"error":false}`:                                           {},
		`{"error":""}`:                                              {},
		`{"error":{}}`:                                              {},
		`{"choices":[{"error":{"message":"x"}}]}`:                   {},
		`{}`:              {},
		`[{"error":"x"}]`: {},
		`no JSON`:         {},
	} {
		if got, ok := problemIn([]byte(data)); got != want || ok != (want != problem{}) {
			t.Errorf("%s: got %+v, %v; want %+v", data, got, ok, want)
		}
	}
}

// The names that endpoints give go before the numbers.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		status int
		p      problem
		code   string
	}{
		{0, problem{Message: "x", Code: "503"}, CodeOverloaded},
		{0, problem{Message: "x", Code: "429"}, CodeRateLimited},
		{0, problem{Message: "the context window is full"}, CodeContextExceeded},
		{0, problem{Message: "x"}, CodeUnknown},
		{418, problem{}, CodeInvalidRequest},
		{599, problem{}, CodeUnavailable},
		{408, problem{}, CodeTimeout},
		{413, problem{}, CodeContextExceeded},
	} {
		if code, _ := c.p.judge(c.status); code != c.code {
			t.Errorf("%d %+v: %s, want %s", c.status, c.p, code, c.code)
		}
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"Retry-After: 2": 2 * time.Second, "Retry-After: 0.5": time.Second / 2, "Retry-After-Ms: 30": 30 * time.Millisecond,
		"Retry-After: Thu, 01 Jan 2026 00:00:07 GMT": 7 * time.Second, "Retry-After: soon": 0, "Retry-After: -3": 0,
		"Retry-After: 1e300": 24 * time.Hour, "Retry-After: Thu, 01 Jan 2020 00:00:07 GMT": 0,
	} {
		name, value, _ := strings.Cut(header, ": ")
		if got := retryAfter(http.Header{name: {value}}, now); got != want {
			t.Errorf("%s: %s, want %s", header, got, want)
		}
	}
}

// A worker that dies in mid-answer is followed by another one, whose answer is the
// only one that is left.
func TestWorkerDies(t *testing.T) {
	for _, api := range apis {
		t.Run(string(api), func(t *testing.T) {
			w := newWorld(t)
			halfway := make(chan struct{})
			end := openaitest.Start(t, func(r openaitest.Request) openaitest.Reply {
				if r.N == 1 {
					return openaitest.Say(think("Let me see."), text("I was about to say, "), openaitest.Do(func() { close(halfway) }), openaitest.Wait(r.Gone))
				}
				return openaitest.Say(text("I say it."))
			})
			agents := map[string]workers.Agent{"clerk": w.agent(end, api)}
			first := w.serve(agents)
			s := w.ask("clerk", "And?")
			<-halfway
			w.await(s, "half an answer", func(snap fold.Snapshot) bool { return answered(snap) == "I was about to say, " })
			first.kill()
			w.serve(agents)
			snap := w.ended(s)
			w.want(answered(snap), "I say it.", "text")
			w.want(partsText(snap, "reasoning"), "", "reasoning")
		})
	}
}

// Who presses stop is heard while the model speaks, and while it is waited for.
func TestInterrupted(t *testing.T) {
	for _, api := range apis {
		t.Run(string(api), func(t *testing.T) {
			w := newWorld(t)
			end := openaitest.Start(t, func(r openaitest.Request) openaitest.Reply {
				if strings.HasPrefix(r.Last().Text, "busy") {
					return openaitest.Busy(30)
				}
				return openaitest.Say(text("It all began "), openaitest.Wait(r.Gone))
			})
			w.serve(map[string]workers.Agent{"clerk": w.agent(end, api)})
			s := w.ask("clerk", "Tell me a story.")
			w.await(s, "a beginning", func(snap fold.Snapshot) bool { return answered(snap) == "It all began " })
			w.stop(s)
			snap := w.await(s, "the interruption", func(snap fold.Snapshot) bool { return snap.Run.Status == fold.RunInterrupted })
			w.want(answered(snap), "It all began ", "text")

			s = w.ask("clerk", "busy?")
			w.await(s, "the run", func(snap fold.Snapshot) bool { return snap.Run.ID == "r1" })
			w.stop(s)
			w.await(s, "the interruption", func(snap fold.Snapshot) bool { return snap.Run.Status == fold.RunInterrupted })
		})
	}
}

func TestConfig(t *testing.T) {
	run := func(context.Context, Call) (any, error) { return nil, nil }
	for want, cfg := range map[string]Config{
		"Model is empty":          {},
		"API is":                  {Model: "m", API: "soap"},
		"BaseURL is no":           {Model: "m", BaseURL: "localhost"},
		"BaseURL has a user":      {Model: "m", BaseURL: "http://me:pw@localhost"},
		"MaxSteps is -1":          {Model: "m", MaxSteps: -1},
		"Parallel is -1":          {Model: "m", Parallel: -1},
		"Silence is -1s":          {Model: "m", Silence: -time.Second},
		"Attempts is -1":          {Model: "m", Retry: Retry{Attempts: -1}},
		"pause below 0":           {Model: "m", Retry: Retry{First: -1}},
		"is no token":             {Model: "m", Tools: []Tool{{Name: "a b", Run: run}}},
		"name is taken":           {Model: "m", Tools: []Tool{{Name: finishTool, Run: run}}},
		"has no Run":              {Model: "m", Tools: []Tool{{Name: "a"}}},
		"neither Run nor Approve": {Model: "m", Tools: []Tool{{Name: "a", Client: true, Run: run}}},
		"there twice":             {Model: "m", Tools: []Tool{{Name: "a", Run: run}, {Name: "a", Run: run}}},
		"is no JSON object":       {Model: "m", Tools: []Tool{{Name: "a", Run: run, Schema: chunk.Value(`[]`)}}},
		"of type string":          {Model: "m", Output: chunk.Value(`{"type":"string"}`)},
		"Deadline is":             {Model: "m", Tools: []Tool{{Name: "a", Run: run, Deadline: -1}}},
		"the schema: ":            {Model: "m", Tools: []Tool{{Name: "a", Run: run, Schema: chunk.Value(`{"type":"object","required":7}`)}}},
		"want no references":      {Model: "m", Tools: []Tool{{Name: "a", Run: run, Schema: chunk.Value(`{"type":"object","properties":{"x":{"$ref":"file:///etc/passwd"}}}`)}}},
	} {
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("err = %v, want one with %q", err, want)
		} else if strings.Contains(err.Error(), "pw") && strings.Contains(want, "user") {
			t.Errorf("the password is in %v", err)
		}
	}
}
