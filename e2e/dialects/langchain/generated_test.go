//go:build e2e

package langchain

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/langgraph"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
	"github.com/tailrace/tailrace/internal/testkit/turntest"
	"github.com/tailrace/tailrace/projector/fold"
)

var logs = flag.Int("logs", 150, "number of random logs")

// written returns the events of a log, each turn by a writer of its own, and the state of the thread after it.
func written(t *testing.T, log turntest.Log) (events []event, raw []json.RawMessage, after state) {
	t.Helper()
	var frames []byte
	w := langgraph.NewWriter(langgraph.WriterConfig{MessageID: fold.MessageID(0)})
	for i, rec := range log {
		if rec.Session == turntest.Session && rec.Type == chunk.TypeRunStarted {
			if s := snapshotOf(t, log[:i+1]); s.TurnStart().Seq == rec.Seq {
				w = langgraph.NewWriter(langgraph.WriterConfig{MessageID: fold.MessageID(s.TurnMessages())})
			}
		}
		frames = w.Append(frames, rec)
	}
	for line := range strings.Lines(string(frames)) {
		if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: "); ok {
			var e event
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				t.Fatalf("%v in %s", err, data)
			}
			events, raw = append(events, e), append(raw, json.RawMessage(data))
		}
	}
	if err := json.Unmarshal(langgraph.AppendState(nil, langgraph.State{Content: snapshotOf(t, log).Content(true), Thread: "t", AgentType: "planner"}), &after); err != nil {
		t.Fatal(err)
	}
	return events, raw, after
}

// snapshotOf returns the snapshot of the session of a log, without what truncated records have removed.
func snapshotOf(t *testing.T, log turntest.Log) *fold.Snapshot {
	t.Helper()
	folder := fold.New(turntest.Session)
	for _, rec := range log.Remaining() {
		if rec.Session != turntest.Session {
			continue
		}
		folder.SkipGap(rec, fold.GapRemoved)
		err := folder.Apply(rec)
		if errors.Is(err, fold.ErrInvalidRecord) {
			err = folder.Skip(rec, err.Error())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s := folder.Snapshot()
	return &s
}

// TestGeneratedLogs compares what the client's assembler makes of the events of random logs, and the questions that are open after them, with the state of the thread.
func TestGeneratedLogs(t *testing.T) {
	seed := seedtest.Seed(t)
	random := rand.New(rand.NewPCG(seed, 0))
	seenQuestions, seenMessages := 0, 0
	for n := range *logs {
		log := turntest.Logs(turntest.Config{Turns: 2, SubAgents: true, Plain: true, Crashes: n%2 == 1, Reuse: n%4 > 1}).Example(int(random.Int32()))
		events, raw, after := written(t, log)
		fail := func(what string, got, want any) {
			t.Fatalf("-seed %d, log %d: the client has the %s\n%s\nthe state\n%s\nof\n%s", seed, n, what, asJSON(t, got), asJSON(t, want), log)
		}
		var v result
		client.Ask(t, map[string]any{"assemble": raw}, &v)
		if v.Fault != "" {
			t.Fatal(v.Fault)
		}
		var got, want [][]any
		for _, m := range v.Messages {
			if len(m.Namespace) == 0 {
				got = append(got, []any{m.ID, m.Blocks})
			}
		}
		stated, _ := after.Values["messages"].([]any)
		for _, m := range stated {
			m := m.(map[string]any)
			content := m["content"]
			if text, ok := content.(string); ok {
				content = []any{map[string]any{"type": "text", "text": text}}
			}
			if m["type"] != "tool" {
				want = append(want, []any{m["id"], content})
			}
		}
		if slices.ContainsFunc(log, func(rec chunk.Record) bool { return rec.Type == chunk.TypeTruncated }) { // a page drops what the state does not have
			got = slices.DeleteFunc(got, func(m []any) bool { return !slices.ContainsFunc(want, func(s []any) bool { return s[0] == m[0] }) })
		}
		if asJSON(t, got) != asJSON(t, want) {
			fail("messages", got, want)
		}
		if asked, open := questions(events), interrupts(after); asJSON(t, asked) != asJSON(t, open) {
			fail("questions", asked, open)
		}
		seenQuestions, seenMessages = seenQuestions+len(interrupts(after)), seenMessages+len(want)
	}
	if t.Logf("%d questions, %d messages", seenQuestions, seenMessages); seenQuestions == 0 || seenMessages == 0 {
		t.Error("nothing was compared")
	}
}

// questions returns the questions to the user of the root graph that have no answer.
func questions(events []event) map[string]any {
	open := make(map[string]any)
	for _, e := range events {
		if len(e.Params.Namespace) > 0 {
			continue
		}
		switch e.Method {
		case "input.requested":
			open[fmt.Sprint(e.Params.Data["interrupt_id"])] = e.Params.Data["payload"]
		case "input.answered":
			for _, id := range e.Params.Data["interrupt_ids"].([]any) {
				delete(open, fmt.Sprint(id))
			}
		}
	}
	return open
}

func interrupts(s state) map[string]any {
	open := make(map[string]any)
	for _, task := range s.Tasks {
		for _, i := range task.Interrupts {
			open[i.ID] = i.Value
		}
	}
	return open
}
