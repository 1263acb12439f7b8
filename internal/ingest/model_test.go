package ingest

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
)

// The opening of a run names the model of the steps that name none. What a record cannot hold is left out.
func TestModelOfRun(t *testing.T) {
	w := newEnv(t, nil)
	for session, c := range map[string]struct{ body, want string }{
		"s1": {`{"runId":"r1","model":"gpt-5","provider":"openai"}`, `"mode":"execute","input":[],"by":{"subject":"local"},"model":"gpt-5","provider":"openai"}`},
		"s2": {`{"runId":"r1","model":"` + strings.Repeat("m", 300) + `","provider":7}`, `"mode":"execute","input":[],"by":{"subject":"local"}}`},
		"s3": {`{"runId":"r1","model":null,"provider":"a\u0000b"}`, `"mode":"execute","input":[],"by":{"subject":"local"}}`},
	} {
		if a := w.ask(http.MethodPost, "/v1/sessions/"+session+"/runs", c.body); a.status != http.StatusCreated {
			t.Errorf("%s: %s %s", session, a, a.body)
		}
		if got := w.lines(chunk.RootSession(tenant, session)); !strings.HasSuffix(got, c.want+"\n") {
			t.Errorf("%s: the log has %s, want %s", session, got, c.want)
		}
	}
	// The members of a step are those of its line, in any form.
	const steps = `{"type":"step_start","startedAt":1764397732000}
{"type":"step_end","model":"gpt-5-mini","provider":"openai","usage":{"inputTokens":1,"outputTokens":2,"reasoningTokens":1,"cost":"0.1"}}
{"type":"step_end","model":["m"],"usage":{"inputTokens":1,"outputTokens":2,"cost":1e999}}`
	if a := w.append("/v1/sessions/s1/runs/r1/chunks?epoch=1", steps); a.members()["done"] != true {
		t.Fatalf("append: %s %s", a, a.body)
	}
	const want = `"step":1,"startedAt":1764397732000}
{"type":"step_end","agentId":"s1","agentType":"agent","timestamp":1,"step":1,"usage":{"inputTokens":1,"outputTokens":2,"reasoningTokens":1,"cost":"0.1"},"model":"gpt-5-mini","provider":"openai"}
{"type":"step_end","agentId":"s1","agentType":"agent","timestamp":1,"step":1,"usage":{"inputTokens":1,"outputTokens":2,"cost":1e999},"model":["m"]}
`
	if got := w.lines(chunk.RootSession(tenant, "s1")); !strings.HasSuffix(got, want) {
		t.Errorf("the log has\n%s\nwant\n%s", got, want)
	}
}
