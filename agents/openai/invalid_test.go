package openai

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/openaistream"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/workers"
)

// An answer that is not valid is said to be so, and is asked for once if another one could not be better. Events without data are skipped.
func TestInvalidAnswers(t *testing.T) {
	const (
		hello = `data: {"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"hello"},"finish_reason":null}]}` + "\n\n"
		stop  = `data: {"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
		done  = "data: [DONE]\n\n"
		usage = `data: {"id":"c1","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5}}` + "\n\n"
	)
	var requests atomic.Int64
	var media, body atomic.Value
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		w.Header().Set("Content-Type", media.Load().(string))
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		fmt.Fprint(w, body.Load())
	}))
	t.Cleanup(server.Close)
	w := newEnv(t)
	agent, err := New(Config{BaseURL: server.URL, Model: "m", Log: w.logger(), Retry: Retry{InitialDelay: time.Millisecond, MaxDelay: 4 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	w.serve(map[string]workers.Agent{"clerk": agent})
	const sse = "text/event-stream"
	for name, tt := range map[string]struct {
		media, body string
		code        string // "" for an answer
		requests    int64
	}{
		"events without data": {sse, "data: \n\ndata\n\n" + hello + "data:\n\n" + stop + done, "", 1},
		"no reason":           {sse, hello + usage, CodeInvalidResponse, 1},
		"no reason and usage": {sse, hello, CodeInvalidResponse, 5},
		"half a JSON":         {sse, hello + "data: {\"id\n\n", CodeInvalidResponse, 5},
		"nothing":             {sse, "", CodeInvalidResponse, 1},
		"comments":            {sse, ": hi\n\n: hi\n\n", CodeInvalidResponse, 1},
		"a page":              {"text/html; charset=utf-8", "<html>Sign in</html>", CodeInvalidResponse, 1},
		"no stream":           {"application/json", `{"id":"c1","choices":[{"message":{"content":"hello"},"finish_reason":"stop"}]}`, CodeInvalidResponse, 1},
		"an error in JSON":    {"application/json", `{"error":{"message":"no","code":"invalid_api_key"}}`, CodeAuthFailed, 1},
		"400 in the stream":   {sse, `data: {"error":{"message":"no","code":400}}` + "\n\n", CodeInvalidRequest, 1},
		"422 after a text":    {sse, hello + `data: {"error":{"message":"no","code":"422"}}` + "\n\n", CodeInvalidRequest, 1},
		"after the reason":    {sse, hello + stop + `data: {"error":{"message":"no","code":400}}` + "\n\n", CodeInvalidRequest, 1},
		"reason error":        {sse, `data: {"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}` + "\n\n", CodeUnknown, 1},
	} {
		media.Store(tt.media)
		body.Store(tt.body)
		before := requests.Load()
		s := w.ask("clerk", "And?")
		if tt.code == "" {
			w.want(answered(w.ended(s)), "hello", name)
		} else if snap := w.AwaitStatus(s, fold.Failed); *snap.Failure.Detail.Code != tt.code || snap.Failure.Message != openaistream.UserMessage(tt.code) {
			t.Errorf("%s: %s, %s", name, *snap.Failure.Detail.Code, snap.Failure.Message)
		}
		if n := requests.Load() - before; n != tt.requests {
			t.Errorf("%s: %d requests, want %d", name, n, tt.requests)
		}
	}
}
