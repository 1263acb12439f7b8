package openai

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/openaistream"
	"github.com/tailrace/tailrace/internal/testkit/openaitest"
	"github.com/tailrace/tailrace/internal/testkit/stack"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/workers"
)

type (
	text  = openaitest.Text
	think = openaitest.Think
)

// After any failure of the first attempt the second one answers, and no output appears twice.
func TestFirstAttemptFails(t *testing.T) {
	half := []openaitest.Event{think("Hm. "), text("The answer "), text("is wr")}
	broken := func(last openaitest.Event) openaitest.Reply {
		return openaitest.StreamReply(append(append([]openaitest.Event(nil), half...), last)...)
	}
	busy := openaitest.Error{Message: "overloaded", Type: "server_error", Code: "server_overloaded"}
	nulls := func(r openaitest.Reply) openaitest.Reply { r.Nulls = true; return r }
	cases := map[string]struct {
		first      openaitest.Reply
		rolledBack bool // output was written and is rolled back
	}{
		"429 with Retry-After":                {openaitest.Busy(0.02), false},
		"500":                                 {openaitest.ErrorReply(500, "server_error", "", "The server had an error"), false},
		"502 without JSON":                    {openaitest.ErrorReply(502, "", "", ""), false},
		"503":                                 {openaitest.ErrorReply(503, "server_error", "", "overloaded"), false},
		"an error before the first output":    {openaitest.StreamReply(openaitest.StreamError(busy)), false},
		"a failed response":                   {openaitest.StreamReply(openaitest.Failed{Message: "it failed", Code: "server_error"}), false},
		"cut before the first output":         {openaitest.StreamReply(openaitest.CloseConnection{}), false},
		"ended before the first output":       {openaitest.StreamReply(openaitest.EndStream{}), false},
		"an error in mid-stream":              {broken(openaitest.StreamError(busy)), true},
		"a rate limit in mid-stream":          {broken(openaitest.StreamError{Message: "slow", Code: "rate_limit_exceeded"}), true},
		"a response that fails in mid-stream": {broken(openaitest.Failed{Message: "it failed", Code: "server_error"}), true},
		"an error after errors of null":       {nulls(broken(openaitest.StreamError(busy))), true},
		"ended behind errors of null":         {nulls(broken(openaitest.EndStream{})), true},
		"cut in mid-stream":                   {broken(openaitest.CloseConnection{}), true},
		"ended in mid-stream":                 {broken(openaitest.EndStream{}), true},
		"half a JSON":                         {broken(openaitest.Raw("data: {\"id\":\"x\",\"choi\n\n")), true},
		"a call cut in its arguments":         {openaitest.StreamReply(openaitest.Call{ID: "c", Name: "look_up", Args: `{"id":"1"}`, Pieces: 3}, openaitest.CloseConnection{}), true},
	}
	for _, api := range apis {
		t.Run(string(api), func(t *testing.T) {
			w := newEnv(t)
			var first atomic.Pointer[openaitest.Reply]
			end := openaitest.Start(t, func(openaitest.Request) openaitest.Reply {
				if r := first.Swap(nil); r != nil {
					return *r
				}
				return openaitest.StreamReply(think("Yes."), text("The answer "), text("is right."))
			})
			w.serve(map[string]workers.Agent{"clerk": w.agent(end, api)})
			for name, c := range cases {
				first.Store(&c.first)
				s := w.ask("clerk", "And?")
				snap := w.ended(s)
				w.want(answered(snap), "The answer is right.", name)
				w.want(partsText(snap, "reasoning"), "Yes.", name)
				if got := strings.Contains(w.types(s), "step_discarded"); got != c.rolledBack {
					t.Errorf("%s: rolled back %v, want %v", name, got, c.rolledBack)
				}
				if strings.Contains(stack.Conversation(snap), "look_up") {
					t.Errorf("%s: call not removed: %s", name, stack.Conversation(snap))
				}
			}
			if strings.Contains(w.logOutput.String(), openaitest.Key) {
				t.Error("log contains the key")
			}
		})
	}
}

func (w *env) types(s chunk.Session) string {
	w.t.Helper()
	var names []string
	for _, b := range w.Bodies(s) {
		names = append(names, string(chunk.Chunk{Body: b}.Type()))
	}
	return strings.Join(names, " ")
}

// The output of an attempt is rolled back before the next attempt writes: no reader ever has output twice.
func TestNoDuplicateOutput(t *testing.T) {
	for _, api := range apis {
		t.Run(string(api), func(t *testing.T) {
			w := newEnv(t)
			var s chunk.Session
			clean := openaitest.Callback(func() {
				if snap, err := w.Reader.Snapshot(context.WithoutCancel(t.Context()), s); err != nil || answered(snap) != "" {
					t.Errorf("before the output of an attempt readers see %q, %v", answered(snap), err)
				}
			})
			end := openaitest.Start(t, func(r openaitest.Request) openaitest.Reply {
				events := []openaitest.Event{clean, text("one "), text("two "), text("three ")}
				if r.N < 4 {
					return openaitest.StreamReply(append(events[:r.N+1], openaitest.CloseConnection{})...)
				}
				return openaitest.StreamReply(events...)
			})
			s = chunk.RootSession("acme", fmt.Sprintf("s-%d", names.Add(1)))
			w.serve(map[string]workers.Agent{"clerk": w.agent(end, api)})
			w.askIn(s, "clerk", "r1", "Count.")
			w.want(answered(w.ended(s)), "one two three ", "text")
		})
	}
}

// A permanent failure fails the run with its code at once; a temporary one is retried up to the limit.
func TestFailures(t *testing.T) {
	late := openaitest.Busy(3600)
	never := openaitest.ErrorReply(503, "server_error", "", "no")
	never.Header.Set("X-Should-Retry", "false")
	cases := map[string]struct {
		reply     openaitest.Reply
		code      string
		retryable bool
		attempts  int
	}{
		"no quota":          {openaitest.ErrorReply(429, "insufficient_quota", "insufficient_quota", "You exceeded your quota"), CodeAuthFailed, false, 1},
		"403":               {openaitest.ErrorReply(403, "permission_error", "", "no"), CodeAuthFailed, false, 1},
		"bad request":       {openaitest.ErrorReply(400, "invalid_request_error", "", "Unknown parameter: 'x'"), CodeInvalidRequest, false, 1},
		"no such model":     {openaitest.ErrorReply(404, "invalid_request_error", "model_not_found", "The model does not exist"), CodeInvalidRequest, false, 1},
		"too long":          {openaitest.ErrorReply(400, "invalid_request_error", "context_length_exceeded", "maximum context length is 8192"), CodeContextExceeded, false, 1},
		"too long, unnamed": {openaitest.ErrorReply(400, "BadRequestError", "", "This model's maximum context length is 4096 tokens"), CodeContextExceeded, false, 1},
		"filtered prompt":   {openaitest.ErrorReply(400, "", "content_filter", "filtered"), CodeContentFiltered, false, 1},
		"always busy":       {openaitest.Busy(0), CodeRateLimited, true, 5},
		"busy for an hour":  {late, CodeRateLimited, true, 1},
		"do not retry":      {never, CodeOverloaded, false, 1},
		"overloaded":        {openaitest.ErrorReply(529, "overloaded_error", "", "overloaded"), CodeOverloaded, true, 5},
		"gateway":           {openaitest.ErrorReply(504, "", "", ""), CodeTimeout, true, 5},
		"unknown":           {openaitest.StreamReply(openaitest.StreamError{Message: "odd", Code: "odd"}), CodeUnknown, false, 1},
		"filtered answer":   {openaitest.Reply{Finish: "content_filter"}, CodeContentFiltered, false, 1},
		"always cut":        {openaitest.StreamReply(text("Well, "), openaitest.CloseConnection{}), CodeUnavailable, true, 5},
	}
	for _, api := range apis {
		t.Run(string(api), func(t *testing.T) {
			w := newEnv(t)
			var reply atomic.Pointer[openaitest.Reply]
			end := openaitest.Start(t, func(openaitest.Request) openaitest.Reply { return *reply.Load() })
			w.serve(map[string]workers.Agent{"clerk": w.agent(end, api)})
			for name, c := range cases {
				before := len(end.Requests())
				reply.Store(&c.reply)
				s := w.ask("clerk", "And?")
				snap := w.AwaitStatus(s, fold.Failed)
				d := snap.Failure.Detail
				if *d.Code != c.code || *d.Retryable != c.retryable || *d.Category != "provider" || snap.Failure.Message != openaistream.UserMessage(c.code) {
					t.Errorf("%s: failed with %q, %q, %v, %q", name, *d.Code, *d.Category, *d.Retryable, snap.Failure.Message)
				}
				if got := len(end.Requests()) - before; got != c.attempts {
					t.Errorf("%s: %d attempts, want %d", name, got, c.attempts)
				}
			}
		})
	}
}

// Retry-After is respected: the second attempt does not start earlier.
func TestRetryAfter(t *testing.T) {
	w := newEnv(t)
	var times []time.Time
	end := openaitest.Start(t, func(r openaitest.Request) openaitest.Reply {
		times = append(times, time.Now())
		if r.N == 1 {
			return openaitest.Busy(0.25)
		}
		return openaitest.StreamReply(text("Now."))
	})
	w.serve(map[string]workers.Agent{"clerk": w.agent(end, Chat)})
	w.want(answered(w.ended(w.ask("clerk", "And?"))), "Now.", "text")
	if d := times[1].Sub(times[0]); d < 250*time.Millisecond {
		t.Errorf("retried after %s, want 250 ms", d)
	}
}

// A silent endpoint is retried; heartbeats prevent that.
func TestIdleTimeout(t *testing.T) {
	for _, api := range apis {
		t.Run(string(api), func(t *testing.T) {
			w := newEnv(t)
			var left atomic.Int64
			end := openaitest.Start(t, func(r openaitest.Request) openaitest.Reply {
				if r.N == 1 {
					return openaitest.StreamReply(text("Let me"), openaitest.Wait(r.Disconnected), openaitest.Callback(func() { left.Add(1) }))
				}
				var events []openaitest.Event
				for range 8 {
					events = append(events, openaitest.Raw(": keep-alive\n\n"), openaitest.Wait(after(100*time.Millisecond)))
				}
				return openaitest.StreamReply(append(events, text("Here I am."))...)
			})
			w.serve(map[string]workers.Agent{"clerk": w.agent(end, api, func(c *Config) { c.IdleTimeout = 500 * time.Millisecond })})
			w.want(answered(w.ended(w.ask("clerk", "And?"))), "Here I am.", "text")
			if got := len(end.Requests()); got != 2 {
				t.Errorf("%d requests, want 2", got)
			}
			if !strings.Contains(w.logOutput.String(), CodeTimeout) {
				t.Error("idle timeout not logged")
			}
		})
	}
}

// after returns a channel that is closed after d.
func after(d time.Duration) <-chan struct{} {
	c := make(chan struct{})
	time.AfterFunc(d, func() { close(c) })
	return c
}

// A rejected key is neither shown nor logged, even if the endpoint repeats it.
func TestKeyIsNotLogged(t *testing.T) {
	w := newEnv(t)
	const key = "sk-someone-elses-0123"
	end := openaitest.Start(t, func(openaitest.Request) openaitest.Reply { return openaitest.StreamReply(text("never")) })
	w.serve(map[string]workers.Agent{"clerk": w.agent(end, Chat, func(c *Config) { c.Key = key })})
	s := w.ask("clerk", "And?")
	snap := w.AwaitStatus(s, fold.Failed)
	w.want(*snap.Failure.Detail.Code, CodeAuthFailed, "code")
	shown := w.logOutput.String() + fmt.Sprintf("%v %+v %#v", Secret(key), Config{Key: key}, Config{Key: key})
	for _, rec := range w.Records(s) {
		shown += string(rec.Data)
	}
	if strings.Contains(shown, key) {
		t.Errorf("key found in %s", shown)
	}
}

// After a crash in the middle of an answer only the answer of the next worker is left.
func TestWorkerCrash(t *testing.T) {
	for _, api := range apis {
		t.Run(string(api), func(t *testing.T) {
			w := newEnv(t)
			halfway := make(chan struct{})
			end := openaitest.Start(t, func(r openaitest.Request) openaitest.Reply {
				if r.N == 1 {
					return openaitest.StreamReply(think("Let me see."), text("I was about to say, "), openaitest.Callback(func() { close(halfway) }), openaitest.Wait(r.Disconnected))
				}
				return openaitest.StreamReply(text("I say it."))
			})
			agents := map[string]workers.Agent{"clerk": w.agent(end, api)}
			first := w.serve(agents)
			s := w.ask("clerk", "And?")
			<-halfway
			w.Await(s, "half an answer", func(snap fold.Snapshot) bool { return answered(snap) == "I was about to say, " })
			first.Kill()
			w.serve(agents)
			snap := w.ended(s)
			w.want(answered(snap), "I say it.", "text")
			w.want(partsText(snap, "reasoning"), "", "reasoning")
		})
	}
}

// A stop request takes effect during a response and during a retry delay.
func TestInterrupted(t *testing.T) {
	for _, api := range apis {
		t.Run(string(api), func(t *testing.T) {
			w := newEnv(t)
			end := openaitest.Start(t, func(r openaitest.Request) openaitest.Reply {
				if strings.HasPrefix(r.Last().Text, "busy") {
					return openaitest.Busy(30)
				}
				return openaitest.StreamReply(text("It all began "), openaitest.Wait(r.Disconnected))
			})
			w.serve(map[string]workers.Agent{"clerk": w.agent(end, api)})
			s := w.ask("clerk", "Tell me a story.")
			w.Await(s, "a beginning", func(snap fold.Snapshot) bool { return answered(snap) == "It all began " })
			w.stop(s)
			snap := w.Await(s, "the interruption", func(snap fold.Snapshot) bool { return snap.Run.Status == fold.RunInterrupted })
			w.want(answered(snap), "It all began ", "text")

			s = w.ask("clerk", "busy?")
			w.Await(s, "the run", func(snap fold.Snapshot) bool { return snap.Run.ID == "r1" })
			w.stop(s)
			w.Await(s, "the interruption", func(snap fold.Snapshot) bool { return snap.Run.Status == fold.RunInterrupted })
		})
	}
}

func TestConfig(t *testing.T) {
	run := func(context.Context, Call) (any, error) { return nil, nil }
	for want, cfg := range map[string]Config{
		"Model is empty":                {},
		"API is":                        {Model: "m", API: "soap"},
		"BaseURL is invalid":            {Model: "m", BaseURL: "localhost"},
		"BaseURL has a user":            {Model: "m", BaseURL: "http://me:pw@localhost"},
		"invalid name":                  {Model: "m", Tools: []Tool{{Name: "a b", Run: run}}},
		"reserved name":                 {Model: "m", Tools: []Tool{{Name: finishTool, Run: run}}},
		"want Run or":                   {Model: "m", Tools: []Tool{{Name: "a"}}},
		"neither Run nor NeedsApproval": {Model: "m", Tools: []Tool{{Name: "a", RunsInBrowser: true, Run: run}}},
		"duplicate name":                {Model: "m", Tools: []Tool{{Name: "a", Run: run}, {Name: "a", Run: run}}},
		"want a JSON object":            {Model: "m", Tools: []Tool{{Name: "a", Run: run, Schema: chunk.Value(`[]`)}}},
		"of type string":                {Model: "m", Output: chunk.Value(`{"type":"string"}`)},
		": schema: ":                    {Model: "m", Tools: []Tool{{Name: "a", Run: run, Schema: chunk.Value(`{"type":"object","required":7}`)}}},
		"reference to another document": {Model: "m", Tools: []Tool{{Name: "a", Run: run, Schema: chunk.Value(`{"type":"object","properties":{"x":{"$ref":"file:///etc/passwd"}}}`)}}},
	} {
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("err = %v, want one with %q", err, want)
		} else if strings.Contains(err.Error(), "pw") && strings.Contains(want, "user") {
			t.Errorf("error contains the password: %v", err)
		}
	}
}

// A negative value switches a limit or a delay off.
func TestOff(t *testing.T) {
	a, err := New(Config{
		Model: "m", MaxSteps: Off, Parallel: Off, IdleTimeout: Off,
		Retry: Retry{Attempts: Off, InitialDelay: Off, MaxDelay: Off, MaxRetryAfter: Off},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := a.cfg.Retry, (Retry{Attempts: 1}); got != want {
		t.Errorf("retry %+v, want %+v", got, want)
	}
	tried := attempts{retry: Retry{Attempts: 2}}
	if !tried.after(&failure{code: CodeOverloaded}) || tried.delay != 0 {
		t.Errorf("delay %s, want a retry at once", tried.delay)
	}
	if (&attempts{retry: Retry{Attempts: 2}}).after(&failure{code: CodeOverloaded, after: time.Second}) {
		t.Error("retried after a requested delay, want none")
	}
}
