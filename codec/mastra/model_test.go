package mastra

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/dialect"
)

// Each step of the recorded runs that names its model has it: that of the response, and the provider of the requested one.
func TestModelsOfRecordedRuns(t *testing.T) {
	named := 0
	for _, r := range runs(t) {
		for _, s := range translate(t, r) {
			m := dialect.Read(chunk.Value(s.raw))
			if kind, _ := m.Text("type"); kind != "step-finish" || m.Object("payload").Object("metadata").Or("modelId", "") == "" {
				continue
			}
			named++
			for _, c := range s.chunks {
				if end, ok := chunk.As[chunk.StepEnd](c); ok && (end.Model == nil || *end.Model != "scripted" || end.RequestModel != nil || end.Provider == nil || *end.Provider != "scripted") {
					t.Errorf("%s: the end of %.300s is %+v", r.Name, s.raw, end)
				}
			}
		}
	}
	if named < 20 {
		t.Errorf("%d steps name their model", named)
	}
}

// The model of a response-metadata is that of its step, and what a record cannot hold is left out.
func TestModelOfResponse(t *testing.T) {
	const finish = `{"type":"step-finish","payload":{"stepResult":{"reason":"stop"},"output":{"usage":%s},"metadata":%s}}`
	long := strings.Repeat("m", 1<<20)
	for _, tt := range []struct{ response, usage, metadata, want string }{
		{`"gpt-5-2025-08-07"`, `{"inputTokens":5,"outputTokens":7,"reasoningTokens":2}`, `{"modelMetadata":{"modelId":"gpt-5","modelProvider":"openai.responses"}}`, "gpt-5-2025-08-07 gpt-5 openai.responses 2"},
		{`"gpt-5"`, `{"inputTokens":5,"outputTokens":7,"outputTokenDetails":{"reasoningTokens":3}}`, `{"modelId":"gpt-5-mini","modelProvider":"openai"}`, "gpt-5-mini - openai 3"},
		{`7`, `{"inputTokens":5,"outputTokens":7,"reasoningTokens":"many"}`, `{"modelId":"` + long + `","modelMetadata":[],"modelProvider":"a\nb"}`, "- - - -"},
		{`"` + long + `"`, `7`, `7`, "- - - -"},
	} {
		tr := New(codec.Run{Session: "s1"})
		var end chunk.StepEnd
		for _, raw := range []string{`{"type":"step-start","payload":{}}`, `{"type":"response-metadata","payload":{"modelId":` + tt.response + `}}`, fmt.Sprintf(finish, tt.usage, tt.metadata)} {
			chunks, err := tr.Translate([]byte(raw))
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range chunks {
				checkChunk(t, c)
				if b, ok := chunk.As[chunk.StepEnd](c); ok {
					end = b
				}
			}
		}
		var reasoning *string
		if end.Usage != nil && end.Usage.ReasoningTokens != nil {
			reasoning = new(string(*end.Usage.ReasoningTokens))
		}
		var got []string
		for _, s := range []*string{end.Model, end.RequestModel, end.Provider, reasoning} {
			if s == nil {
				s = new("-")
			}
			got = append(got, *s)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%.100s: %q, want %q", tt.metadata, got, tt.want)
		}
	}
}
