package httpagent

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector/fold"
)

// The end of a step has the model and the provider that the endpoint names, and those of the configuration where it names none. What a record cannot hold fails no run.
func TestModelOfStep(t *testing.T) {
	const finish = `{"type":"start-step"}` + "\n" + `{"type":"finish-step"}` + "\n" + `{"type":"finish","messageMetadata":{"usage":{"inputTokens":7,"outputTokens":8,"reasoningTokens":3,"cost":"0.25"}}}`
	long := strings.Repeat("m", 1<<20)
	for name, tt := range map[string]struct{ dialect, events, want string }{
		"AI SDK":              {AISDK, `{"type":"start","messageMetadata":{"model":"gpt-5.1","provider":"openai"}}` + "\n" + finish, "gpt-5.1 openai 7 0.25"},
		"AI SDK without":      {AISDK, `{"type":"start"}` + "\n" + finish, "configured acme 7 0.25"},
		"AI SDK, only model":  {AISDK, `{"type":"start","messageMetadata":{"model":"gpt-5.1"}}` + "\n" + finish, "gpt-5.1 acme 7 0.25"},
		"AI SDK, no steps":    {AISDK, `{"type":"finish","messageMetadata":{"modelId":"m","usage":{"inputTokens":7,"outputTokens":8}}}`, "m acme 7 -"},
		"AI SDK, hostile":     {AISDK, `{"type":"start","messageMetadata":{"model":"` + long + `","provider":{}}}` + "\n" + finish, "configured acme 7 0.25"},
		"AG-UI":               {AGUI, `{"type":"RUN_STARTED","threadId":"t","runId":"r"}` + "\n" + `{"type":"RUN_FINISHED","threadId":"t","runId":"r","usage":[{"provider":"openai","model":"gpt-4o","inputTokens":100,"outputTokens":50}]}`, "gpt-4o openai 100 -"},
		"native":              {Native, `{"type":"step_start"}` + "\n" + `{"type":"step_end","model":"m","usage":{"inputTokens":1,"outputTokens":2,"cost":"0.5"}}` + "\n" + `{"type":"stream_end","streamId":"s"}`, "m acme 1 0.5"},
		"native, wrong forms": {Native, `{"type":"step_start","startedAt":"x"}` + "\n" + `{"type":"step_end","model":7,"provider":"` + long + `","usage":{"inputTokens":1,"outputTokens":2,"cost":1e999,"reasoningTokens":[]}}` + "\n" + `{"type":"stream_end","streamId":"s"}`, "configured acme 1 -"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newEnv(t, func(rw http.ResponseWriter, _ *http.Request, _ post) { sse(rw, strings.Split(tt.events, "\n")...) })
			w.serve(w.agent(func(c *Config) { c.Dialect, c.Model, c.Provider = tt.dialect, "configured", "acme" }))
			s := w.ask("Hello?")
			w.AwaitStatus(s, fold.Ended)
			for _, b := range w.Bodies(s) {
				end, ok := b.(chunk.StepEnd)
				if !ok {
					continue
				}
				got := []string{"-", "-", "-", "-"}
				for i, m := range []*string{end.Model, end.Provider, (*string)(&end.Usage.InputTokens), end.Usage.Cost} {
					if m != nil {
						got[i] = *m
					}
				}
				w.want(strings.Join(got, " "), tt.want, "step_end")
			}
		})
	}
	for _, c := range []Config{{URL: "http://h", Model: long}, {URL: "http://h", Provider: "a\nb"}} {
		if _, err := New(c); err == nil || len(err.Error()) > 200 {
			t.Errorf("%.20s %q: %.300v", c.Model, c.Provider, err)
		}
	}
}
