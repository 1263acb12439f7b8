package openai

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/workers"
)

// The end of a step has the model that the endpoint names, the requested one, the provider of the configuration, and the cost of a gateway. Without a name, the
// requested model counts; what a record cannot hold fails no run.
func TestModelOfStep(t *testing.T) {
	const (
		chat      = `data: {"id":"c1","object":"chat.completion.chunk","provider":"OpenAI","model":%q,"choices":[{"index":0,"delta":{"content":"hello"},"finish_reason":"stop"}]}` + "\n\n"
		cost      = `data: {"id":"c1","model":%q,"choices":[],"usage":{"prompt_tokens":194,"completion_tokens":2,"completion_tokens_details":{"reasoning_tokens":1},"cost":%s,"total_tokens":196}}` + "\n\ndata: [DONE]\n\n"
		responses = `data: {"type":"response.created","response":{"id":"r1","model":%[1]q}}` + "\n\n" + `data: {"type":"response.output_text.delta","delta":"hello"}` + "\n\n" +
			`data: {"type":"response.completed","response":{"id":"r1","model":%[1]q,"output":[],"usage":{"input_tokens":194,"output_tokens":2,"output_tokens_details":{"reasoning_tokens":1}}}}` + "\n\n"
	)
	long := strings.Repeat("m", 1<<20)
	for name, tt := range map[string]struct {
		api            API
		body, provider string
		want           string
	}{
		"chat": {Chat, fmt.Sprintf(chat+cost, "openai/gpt-5", "openai/gpt-5", "1.425e-05"), "openrouter", `{"inputTokens":194,"outputTokens":2,"reasoningTokens":1,"cost":"0.00001425"} openai/gpt-5 gpt-5 openrouter`},
		"responses": {
			Responses, fmt.Sprintf(responses, "gpt-5-2025-08-07"), "",
			`{"inputTokens":194,"outputTokens":2,"reasoningTokens":1} gpt-5-2025-08-07 gpt-5 openai`,
		},
		"the requested model": {Chat, fmt.Sprintf(chat+cost, "gpt-5", "gpt-5", "0"), "", `{"inputTokens":194,"outputTokens":2,"reasoningTokens":1,"cost":"0"} gpt-5 - openai`},
		"hostile values":      {Chat, fmt.Sprintf(chat+cost, long, "", "1e999"), "", `{"inputTokens":194,"outputTokens":2,"reasoningTokens":1} gpt-5 - openai`},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				fmt.Fprint(w, tt.body)
			}))
			t.Cleanup(server.Close)
			w := newEnv(t)
			agent, err := New(Config{BaseURL: server.URL, Model: "gpt-5", API: tt.api, Provider: tt.provider, Log: w.logger()})
			if err != nil {
				t.Fatal(err)
			}
			w.serve(map[string]workers.Agent{"clerk": agent})
			s := w.ask("clerk", "And?")
			w.ended(s)
			for _, b := range w.Bodies(s) {
				if end, ok := b.(chunk.StepEnd); ok {
					w.want(stepEndText(t, end), tt.want, "step_end")
				}
			}
		})
	}
	if _, err := New(Config{Model: "m", Provider: long}); err == nil || !strings.Contains(err.Error(), "Provider") || len(err.Error()) > 200 {
		t.Errorf("a long provider: %.300v", err)
	}
}

// stepEndText returns the usage, the model, the requested model and the provider of a step, "-" for one that it does not have.
func stepEndText(t *testing.T, end chunk.StepEnd) string {
	t.Helper()
	text, err := chunk.Chunk{AgentID: "s", Body: chunk.StepEnd{Usage: end.Usage}}.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, usage, _ := strings.Cut(string(text), `"usage":`)
	out := []string{strings.TrimSuffix(usage, "}")}
	for _, s := range []*string{end.Model, end.RequestModel, end.Provider} {
		if s == nil {
			s = new("-")
		}
		out = append(out, *s)
	}
	return strings.Join(out, " ")
}
