package jsingest

import (
	"errors"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/dialects"
	"github.com/tailrace/tailrace/internal/ingestion"
	"github.com/tailrace/tailrace/internal/testkit/stack"
	"github.com/tailrace/tailrace/producers"
)

// A run that was replaced between its subagent_start and the first record of the sub-agent does not fence the same sub-agent of the run that has replaced it.
func TestAReplacedRunStartsNoSubAgent(t *testing.T) {
	s := stack.Start(t, stack.Options{})
	service := New(s.NewWriter(producers.Config{}), dialects.NewTranslator)
	of := chunk.RootSession("acme", "s1")
	attach := func(run string) *writer {
		t.Helper()
		state, _, err := service.Open(t.Context(), ingestion.Opening{Session: of, Started: chunk.RunStarted{RunID: run, Mode: "execute"}, TakeOver: true})
		if err != nil {
			t.Fatal(err)
		}
		w, err := service.Attach(t.Context(), ingestion.Request{Run: ingestion.Run{Session: of, ID: run, Epoch: state.Epoch}, First: 1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = w.Close(t.Context()) }) // one of them is fenced
		return w.(*writer)
	}
	replaced, by := attach("r1"), attach("r2")
	if err := errors.Join(by.Line(t.Context(), 1, []byte(`{"type":"subagent_start","subAgentType":"sub","subSessionId":"s1-a","callId":"c"}`)), by.Flush(t.Context())); err != nil {
		t.Fatal(err)
	}
	err := replaced.startChild(t.Context(), replaced.sessions["s1"], chunk.SubagentStart{SubAgentType: "sub", SubSessionID: "s1-a", CallID: "c"}, codec.InputPosition{Run: "r1", Line: 1})
	if r, ok := errors.AsType[*ingestion.RefusalError](err); !ok || r.Reason != ingestion.ReasonFenced || r.Run != "r2" {
		t.Errorf("the replaced run gets %v, want that r2 has fenced it", err)
	}
	if err := errors.Join(by.Line(t.Context(), 2, []byte(`{"type":"text_delta","agentId":"s1-a","delta":"x"}`)), by.Flush(t.Context())); err != nil {
		t.Errorf("the sub-agent of the second run: %v", err)
	}
	if n := len(s.Chunks(of.Child("s1-a"))); n != 2 {
		t.Errorf("the sub-agent has %d records, want 2", n)
	}
}
