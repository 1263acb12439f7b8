package jsingest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialects"
	"github.com/tailrace/tailrace/internal/testkit/stack"
	"github.com/tailrace/tailrace/producers"
)

func newPublisher(t *testing.T, agentType string) *Publisher {
	t.Helper()
	p, err := New(nil, dialects.NewTranslator).NewPublisher(PublisherConfig{Session: chunk.RootSession("default", "s1"), AgentType: agentType})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A line that is not an object is rejected.
func TestFillRejectsNull(t *testing.T) {
	for _, line := range []string{"null", ` {"chunk": null}`, "[]", "7", `"x"`} {
		if c, _, err := newPublisher(t, "cli").decode([]byte(line)); err == nil {
			t.Errorf("%s: %+v", line, c)
		}
	}
}

// The agent type of a flag can be any text.
func TestFillWritesJSON(t *testing.T) {
	p := newPublisher(t, "a\x07\"\u00e9")
	c, _, err := p.decode([]byte(`{"type":"text_delta","delta":"x"}`))
	if err != nil || c.AgentType != p.cfg.AgentType || c.AgentID != "s1" {
		t.Errorf("%+v, %v", c, err)
	}
}

// A pipe in another dialect, and one whose lines leave out what the session says, are written as requests are.
func TestPublisherOfDialects(t *testing.T) {
	s := stack.Start(t, stack.Options{})
	service := New(s.NewWriter(producers.Config{}), dialects.NewTranslator)
	publish := func(session, dialect string, lines ...string) []chunk.Chunk {
		t.Helper()
		p, err := service.NewPublisher(PublisherConfig{Session: chunk.RootSession("acme", session), AgentType: "cli", Dialect: dialect})
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range lines {
			if err := p.Line(t.Context(), []byte(line)); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(p.EndOfInput(t.Context()), p.Finish(t.Context(), true)); err != nil {
			t.Fatal(err)
		}
		return s.Chunks(chunk.RootSession("acme", session))
	}
	kinds := func(all []chunk.Chunk) (text string) {
		for _, c := range all {
			text += fmt.Sprintf("%s %s %s %d\n", c.AgentID, c.AgentType, c.Type(), c.Step)
		}
		return text
	}
	native := publish("s1", "", `{"type":"step_start"}`, `{"type":"text_delta","delta":"x"}`, `{"type":"subagent_start","subAgentType":"search","subSessionId":"s1-a","callId":"c"}`,
		`{"type":"text_delta","agentId":"s1-a","delta":"y"}`, `{"type":"subagent_end","subAgentType":"search","subSessionId":"s1-a","callId":"c","result":1}`, `{"type":"stream_end"}`)
	if got, want := kinds(native), "s1 cli run_started 0\ns1 cli step_start 1\ns1 cli text_delta 1\ns1 cli subagent_start 1\ns1 cli subagent_end 1\ns1 cli stream_end 1\n"; got != want {
		t.Errorf("got\n%s", got)
	}
	if got, want := kinds(s.Chunks(chunk.RootSession("acme", "s1").Child("s1-a"))), "s1-a cli run_started 0\ns1-a cli text_delta 0\ns1-a cli stream_end 0\n"; got != want {
		t.Errorf("the sub-agent:\n%s", got)
	}
	mastra := publish("s2", "mastra", `{"type":"step-start","payload":{}}`, `{"type":"text-delta","payload":{"id":"1","text":"x"}}`, `{"type":"finish","payload":{"stepResult":{"reason":"stop"}}}`, "", "[DONE]")
	if got, want := kinds(mastra), "s2 cli run_started 0\ns2 cli step_start 1\ns2 cli text_delta 1\ns2 cli stream_end 1\n"; got != want {
		t.Errorf("mastra:\n%s", got)
	}
	openai := publish("s3", "openai", `{"id":"1","choices":[{"index":0,"delta":{"content":"x"}}]}`, "[DONE]") // without a reason for the end
	if got, want := kinds(openai), "s3 cli run_started 0\ns3 cli step_start 1\ns3 cli text_delta 1\ns3 cli step_end 1\ns3 cli stream_end 1\n"; got != want {
		t.Errorf("openai:\n%s", got)
	}
	if _, err := service.NewPublisher(PublisherConfig{Dialect: "morse"}); err == nil {
		t.Error("an unknown dialect is accepted")
	}
}

// The runs of the session that no line starts have the model of the configuration; a run_started has its own, and a sub-agent has none.
func TestPublisherModel(t *testing.T) {
	s := stack.Start(t, stack.Options{})
	p, err := New(s.NewWriter(producers.Config{}), dialects.NewTranslator).NewPublisher(PublisherConfig{
		Session: chunk.RootSession("acme", "s1"), AgentType: "cli", Model: "gpt-5", Provider: "openai",
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`{"type":"subagent_start","subAgentType":"search","subSessionId":"s1-a","callId":"c"}`, `{"type":"text_delta","agentId":"s1-a","delta":"y"}`, `{"type":"stream_end"}`,
		`{"type":"run_started","runId":"r2","epoch":1,"mode":"execute","input":[],"model":"claude"}`,
	} {
		if err := p.Line(t.Context(), []byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(p.EndOfInput(t.Context()), p.Finish(t.Context(), true)); err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, session := range []chunk.Session{chunk.RootSession("acme", "s1"), chunk.RootSession("acme", "s1").Child("s1-a")} {
		for _, c := range s.Chunks(session) {
			if started, ok := chunk.As[chunk.RunStarted](c); ok {
				for _, m := range []*string{started.Model, started.Provider} {
					if m == nil {
						m = new("-")
					}
					got += *m + " "
				}
			}
		}
	}
	if want := "gpt-5 openai claude - - - "; got != want {
		t.Errorf("models %q, want %q", got, want)
	}
}
