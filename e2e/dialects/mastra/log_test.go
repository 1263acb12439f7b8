//go:build e2e

package mastra

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/codec/mastra"
)

var root = chunk.RootSession("acme", "s1")

// log is the records of one turn of a session and its sub-agents.
type log struct {
	t       *testing.T
	records []chunk.Record
	last    map[string]chunk.Ordinal
	steps   map[string]int64
	epoch   chunk.Epoch
}

func newLog(t *testing.T) *log {
	t.Helper()
	return &log{t: t, last: map[string]chunk.Ordinal{}, steps: map[string]int64{}}
}

// emit writes records of a session. A step_start increments its step, a run_started of the root the epoch.
func (l *log) emit(session string, bodies ...chunk.Body) {
	l.t.Helper()
	for _, b := range bodies {
		switch b.(type) {
		case chunk.StepStart:
			l.steps[session]++
		case chunk.RunStarted:
			if session == root.ID {
				l.epoch++
			}
		}
		l.write(chunk.Chunk{AgentID: session, AgentType: "planner", Timestamp: 1, Step: l.steps[session], Body: b})
	}
}

func (l *log) write(c chunk.Chunk) {
	l.t.Helper()
	data, err := c.AppendJSON(nil)
	if err != nil {
		l.t.Fatalf("%T: %v", c.Body, err)
	}
	s := root
	if c.AgentID != root.ID {
		s = root.Child(c.AgentID)
	}
	l.last[s.ID]++
	n := chunk.Seq(len(l.records) + 1)
	l.records = append(l.records, chunk.Record{
		Seq: n, Session: s, Epoch: max(l.epoch, 1), Ordinal: l.last[s.ID], Type: c.Type(), StoredAt: time.UnixMilli(int64(n)), Data: data,
	})
}

// recordings returns the logs of the runs that were recorded from real agents of Mastra, by name.
func recordings(t *testing.T) map[string]*log {
	t.Helper()
	data, err := os.ReadFile("../../../codec/mastra/testdata/mastra-runs.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*log{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r struct {
			Name   string            `json:"name"`
			Chunks []json.RawMessage `json:"chunks"`
		}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		all[r.Name] = translated(t, r.Chunks)
	}
	if lines.Err() != nil || len(all) != 25 {
		t.Fatalf("%d runs, %v", len(all), lines.Err())
	}
	return all
}

func translated(t *testing.T, chunks []json.RawMessage) *log {
	t.Helper()
	l := newLog(t)
	l.emit(root.ID, chunk.RunStarted{RunID: "run-1", Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: "question"}}})
	tr := mastra.New(codec.Run{Session: root.ID, RunID: "run-1"})
	write := func(chunks []chunk.Chunk) {
		for _, c := range chunks {
			l.write(c)
			if b, ok := chunk.As[chunk.SubagentStart](c); ok {
				l.emit(b.SubSessionID, chunk.RunStarted{RunID: "run-" + b.SubSessionID, Epoch: 1, Mode: "execute", Parent: &chunk.Parent{SessionID: c.AgentID, CallID: b.CallID}})
			}
		}
	}
	for _, raw := range chunks {
		var line struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal(raw, &line); err != nil {
			t.Fatal(err)
		}
		if line.Type == "" { // another response begins
			write(tr.End())
			continue
		}
		out, err := tr.Translate(raw)
		if err != nil {
			t.Fatal(err)
		}
		write(out)
	}
	write(tr.End())
	return l
}

// generator writes logs.
type generator struct {
	*rand.Rand

	*log

	calls int
	open  []string // calls that wait for the user or the client
	asks  bool     // these are approvals
}

func newGenerator(t *testing.T, seed, n uint64) *generator {
	t.Helper()
	return &generator{Rand: rand.New(rand.NewPCG(seed, n)), log: newLog(t)}
}

func of[T any](g *generator, list ...T) T { return list[g.IntN(len(list))] }

func (g *generator) words() string {
	return of(g, "a", "Hello ", "é\"\n", "\u2028", "</script>", "data: [DONE]\n\n", "\\ud83d", "\x00", "😀", "")
}

func (g *generator) json() string {
	return of(g, `{}`, `{"q":1}`, `{"a":[1,{"b":null}]}`, `{"é":"\u2028"}`, `{"type":"error","error":"x"}`, `[1]`, `"x"`)
}

func (g *generator) turn() {
	for run := range 3 {
		if run == 0 {
			g.emit(root.ID, chunk.RunStarted{RunID: "r0", Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: "Hi"}}})
		}
		for range 1 + g.IntN(3) {
			g.step()
			if len(g.open) > 0 {
				break
			}
		}
		if len(g.open) == 0 {
			break
		}
		g.emit(root.ID, chunk.RunPaused{RunID: "r0", Reason: "waits"}, chunk.StreamPaused{})
		g.answer(run + 1)
	}
	if g.IntN(5) == 0 {
		g.emit(root.ID, chunk.StreamFailed{Error: "it broke \"😀"})
		return
	}
	g.emit(root.ID, chunk.StreamEnd{StreamID: root.ID})
}

func (g *generator) step() {
	g.emit(root.ID, chunk.StepStart{})
	for range g.IntN(6) {
		g.piece(root.ID, 2)
	}
	reason := "stop"
	if g.IntN(3) == 0 {
		g.ask()
		reason = "tool-calls"
	}
	g.emit(root.ID, chunk.StepEnd{Usage: &chunk.Usage{InputTokens: "5", OutputTokens: "7"}, FinishReason: &reason})
}

func (g *generator) piece(agent string, depth int) {
	switch g.IntN(8) {
	case 0, 1, 2:
		for range 1 + g.IntN(4) {
			g.emit(agent, chunk.TextDelta{Delta: g.words()})
		}
	case 3:
		for range g.IntN(3) {
			g.emit(agent, chunk.Thinking{Content: g.words()})
		}
		g.emit(agent, chunk.Thinking{Content: "", IsComplete: true})
	case 4, 5:
		g.call(agent)
	case 6:
		name := "progress"
		if agent != root.ID {
			name = "of-a-sub-agent" // the adapter shows events of tools in the message
		}
		g.emit(agent, of[chunk.Body](g,
			chunk.Custom{EventName: name, Data: chunk.Value(g.json())},
			chunk.SourceURL{SourceID: "1", URL: "https://e.test/", Title: new("T")},
			chunk.SourceDocument{SourceID: "2", MediaType: "text/plain", Title: "D", Filename: new("d.txt")},
			chunk.File{URL: "data:image/png;base64,AAEC", MediaType: "image/png"},
			chunk.Error{Error: "slow", Recoverable: true},
			chunk.CheckpointCreated{RunID: "r", CheckpointID: "cp", StepCount: 1},
			chunk.StatePatch{Patches: []chunk.PatchOp{{Op: "add", Path: "/a", Value: new(chunk.Value(g.json()))}}},
		))
	case 7:
		if depth > 0 {
			g.subAgent(agent, depth-1)
		}
	}
}

func (g *generator) call(agent string) {
	g.calls++
	id, name := fmt.Sprintf("c%d", g.calls), of(g, "search", "look_up", "__finish__")
	if g.IntN(2) == 0 {
		g.emit(agent, chunk.ToolArgStreamStart{ToolCallID: id, ToolName: name})
		for _, piece := range []string{`{"q`, `":1`, `}`} {
			g.emit(agent, chunk.ToolArgStreamDelta{ToolCallID: id, Delta: piece})
		}
		g.emit(agent, chunk.ToolArgStreamEnd{ToolCallID: id})
	} else if g.IntN(6) == 0 {
		g.emit(agent, chunk.ToolInputError{ToolCallID: id, ToolName: name, Error: "bad"})
		return
	}
	g.emit(agent, chunk.ToolStart{ToolCallID: id, ToolName: name, Arguments: chunk.Value(`{"q":1}`)})
	g.outcome(agent, id, name)
}

func (g *generator) outcome(agent, id, name string) {
	switch g.IntN(4) {
	case 0:
		g.emit(agent, chunk.ToolEnd{ToolCallID: id, ToolName: name, Result: chunk.Value("null"), Error: new("broken"), ProviderExecuted: new(true)})
	case 1:
		g.emit(agent, chunk.ToolOutputError{ToolCallID: id, ToolName: name, Error: "broke"})
	default:
		g.emit(agent, chunk.ToolEnd{ToolCallID: id, ToolName: name, Result: chunk.Value(g.json()), ProviderExecuted: new(true)})
	}
}

func (g *generator) subAgent(parent string, depth int) {
	g.calls++
	id, session := fmt.Sprintf("c%d", g.calls), fmt.Sprintf("k%d", g.calls)
	g.emit(parent, chunk.ToolStart{ToolCallID: id, ToolName: "subagent__x", Arguments: chunk.Value(`{}`)},
		chunk.SubagentStart{SubAgentType: "x", SubSessionID: session, CallID: id})
	g.emit(session, chunk.RunStarted{RunID: "run-" + session, Epoch: 1, Mode: "execute", Parent: &chunk.Parent{SessionID: parent, CallID: id}}, chunk.StepStart{})
	for range g.IntN(4) {
		g.piece(session, depth)
		g.emit(parent, chunk.TextDelta{Delta: "meanwhile"})
	}
	g.emit(session, chunk.StepEnd{}, chunk.StreamEnd{StreamID: session})
	g.emit(parent, chunk.SubagentEnd{SubAgentType: "x", SubSessionID: session, CallID: id, Result: chunk.Value(`1`)},
		chunk.ToolEnd{ToolCallID: id, ToolName: "subagent__x", Result: chunk.Value(`1`), ProviderExecuted: new(true)})
}

// ask writes calls that wait for the user, or for the client.
func (g *generator) ask() {
	g.asks = g.IntN(2) == 0
	for range 1 + g.IntN(2) {
		g.calls++
		id := fmt.Sprintf("q%d", g.calls)
		g.open = append(g.open, id)
		if !g.asks {
			g.emit(root.ID, chunk.ToolStart{ToolCallID: id, ToolName: "page_where", Arguments: chunk.Value(`{"q":1}`)})
			continue
		}
		g.emit(root.ID, chunk.ToolStart{ToolCallID: id, ToolName: "act", Arguments: chunk.Value(`{"q":1}`)},
			chunk.ToolApprovalRequest{ToolCallID: id, ToolName: "act", ApprovalID: "r0::" + id, Input: chunk.Value(`{"q":1}`)})
	}
}

func (g *generator) answer(run int) {
	g.emit(root.ID, chunk.RunStarted{RunID: fmt.Sprintf("r%d", run), Epoch: int64(g.epoch) + 1, Mode: "with_confirmation"})
	for _, id := range g.open {
		if !g.asks {
			g.emit(root.ID, chunk.ToolEnd{ToolCallID: id, ToolName: "page_where", Result: chunk.Value(`"here"`), ProviderExecuted: new(false)})
			continue
		}
		yes := g.IntN(2) == 0
		g.emit(root.ID, chunk.ToolApprovalResponse{ToolCallID: id, ToolName: "act", ApprovalID: "r0::" + id, Approved: yes})
		if yes {
			g.outcome(root.ID, id, "act")
		}
	}
	g.open = nil
}
