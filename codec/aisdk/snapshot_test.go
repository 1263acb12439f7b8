package aisdk

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/structured"
	"github.com/tailrace/tailrace/projector/fold"
)

// answerParts folds the log of one session without the removed records, and returns the last answer; the id is empty if there is none.
func answerParts(log []chunk.Record, isRemoved func(i int) bool) (id string, parts []chunk.Value, err error) {
	root := log[0].Session.Tree()
	f := fold.New(root)
	var removed []chunk.OrdinalRange
	for _, rec := range log {
		if rec.Type != chunk.TypeTruncated {
			continue
		}
		c, err := rec.Decode()
		if err != nil {
			return "", nil, err
		}
		b, _ := chunk.As[chunk.Truncated](c)
		removed = append(removed, b.Removed...)
	}
	f.MarkRemoved(removed)
	for i, rec := range log {
		if rec.Session != root || isRemoved(i) {
			continue
		}
		if err := f.Apply(rec); err != nil {
			return "", nil, fmt.Errorf("%s: %w", rec.Type, err)
		}
	}
	messages := Snapshot(f.Snapshot(), SnapshotOptions{Partial: true}).Messages
	if len(messages) == 0 || messages[len(messages)-1].Role != fold.Assistant {
		return "", nil, nil
	}
	last := messages[len(messages)-1]
	return last.ID, last.Parts, nil
}

// inlineParts returns the parts of the last answer in the snapshot of a log of several sessions, with the output of the sub-agents.
func inlineParts(t *rapid.T, log []chunk.Record) []*uiPart {
	t.Helper()
	root := log[0].Session.Tree()
	folds := map[string]*fold.Folder{}
	for _, rec := range log {
		f := folds[rec.Session.ID]
		if f == nil {
			f = fold.New(rec.Session)
			folds[rec.Session.ID] = f
		}
		if err := f.Apply(rec); err != nil {
			t.Fatal(err)
		}
	}
	messages := Snapshot(folds[root.ID].Snapshot(), SnapshotOptions{
		Partial: true, ClientTool: isClientTool,
		SubAgents: func([]fold.Message) map[string][]fold.Message {
			all := make(map[string][]fold.Message)
			for id, f := range folds {
				all[id] = f.Snapshot().AllMessages()
			}
			return all
		},
	}).Messages
	if len(messages) < 2 {
		return nil
	}
	var parts []*uiPart
	for _, raw := range messages[1].Parts {
		parts = append(parts, partOf(t, raw))
	}
	return parts
}

// agentOf returns the sub-agent of a text or a call, "" for the message's own agent. Other parts do not name it.
func agentOf(p *uiPart) (agent string, ok bool) {
	switch p.typ {
	case "text", "reasoning":
		return p.agent, true
	case "dynamic-tool":
		if session, _, ok := strings.Cut(strings.Trim(p.member["toolCallId"], `"`), "/"); ok {
			return session, true
		}
		return "", true
	}
	return "", false
}

// TestInlineSnapshotHasTheSame: the snapshot with the output of sub-agents has the parts that a client builds from a stream with Inline. Those of one agent have
// the same order; those of different agents interleave in the stream.
func TestInlineSnapshotHasTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := newGenerator(t)
		a.intact = true
		a.turn()
		opt := Options{Major: []int{0, 7}[a.pick("major", 2)], ClientTool: isClientTool, SubAgents: Inline}
		snapshot := comparableLines(inlineParts(t, a.log), opt)
		for name, c := range map[string]*client{"live": live(t, opt, a.log), "replayed": replayed(t, opt, a.log, len(a.log))} {
			stream := comparableLines(c.parts, opt)
			if got, want := slices.Sorted(slices.Values(snapshot)), slices.Sorted(slices.Values(stream)); !slices.Equal(got, want) {
				t.Fatalf("the snapshot has\n%s\n%s\n%s\nof %s", strings.Join(snapshot, "\n"), name, strings.Join(stream, "\n"), a)
			}
			byAgent := map[string][]*uiPart{}
			for _, p := range c.parts {
				if agent, ok := agentOf(p); ok {
					byAgent[agent] = append(byAgent[agent], p)
				}
			}
			for agent, parts := range byAgent {
				if line := firstMissing(comparableLines(parts, opt), snapshot); line != "" {
					t.Fatalf("the snapshot has\n%s\nwant of agent %q, in another place,\n%s\nof %s", strings.Join(snapshot, "\n"), agent, line, a)
				}
			}
		}
	})
}

// comparableLines is comparableText without the steps, a line for each part.
func comparableLines(parts []*uiPart, opt Options) []string {
	text := comparableText(&generator{stepless: true}, parts, opt)
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// firstMissing returns the first line that is not in the list after the lines before it, "" if all are.
func firstMissing(lines, list []string) string {
	for _, line := range lines {
		at := slices.Index(list, line)
		if at < 0 {
			return line
		}
		list = list[at+1:]
	}
	return ""
}

// TestInlinePlaces: the output of a sub-agent follows its call, that of one without a call in the message is at the end. Its texts have ended, its data parts
// have ids of their own, and only the browser's calls are not marked as executed.
func TestInlinePlaces(t *testing.T) {
	write := func(f *fold.Folder, bodies ...chunk.Body) {
		t.Helper()
		for _, body := range bodies {
			at := f.Snapshot().Position.Ordinal + 1
			c := chunk.Chunk{AgentID: f.Snapshot().Session.ID, AgentType: "a", Timestamp: 1, Step: 1, Body: body}
			data, err := c.AppendJSON(nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Apply(chunk.Record{Seq: chunk.Seq(at), Session: f.Snapshot().Session, Epoch: 1, Ordinal: at, Type: c.Type(), Data: data}); err != nil {
				t.Fatal(err)
			}
		}
	}
	begin := func(id string) *fold.Folder {
		f := fold.New(session.Child(id))
		write(f, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: "in"}}}, chunk.StepStart{})
		return f
	}
	value := chunk.Custom{EventName: structured.PieceEvent, Data: chunk.Value(`{"type":"structured-data","streamId":"d","dataType":"t","kind":"final","data":1}`)}
	call := func(id, name string) chunk.ToolStart {
		return chunk.ToolStart{ToolCallID: id, ToolName: name, Arguments: chunk.Value(`{}`)}
	}
	starts := func(id, callID string) chunk.SubagentStart {
		return chunk.SubagentStart{SubAgentType: "x", SubSessionID: id, CallID: callID}
	}
	root, k1, k2 := begin(session.ID), begin("k1"), begin("k2")
	write(k1, value, call("c1", "search"), call("c2", "browser"))
	write(k2, chunk.TextDelta{Delta: "open"})
	write(root, value, starts("k2", "elsewhere"), call("c1", "subagent__x"), call("c2", "subagent__x"), starts("k1", "c1"), starts("k3", "c2"), starts("k1", "c2"))
	var got []string
	page := Snapshot(root.Snapshot(), SnapshotOptions{
		Partial: true, ClientTool: isClientTool,
		SubAgents: func([]fold.Message) map[string][]fold.Message {
			return map[string][]fold.Message{"k1": k1.Snapshot().AllMessages(), "k2": k2.Snapshot().AllMessages()}
		},
	})
	for _, p := range page.Messages[1].Parts {
		got = append(got, string(p))
	}
	want := []string{
		`{"type":"step-start"}`,
		`{"type":"data-structured","id":"d","data":{"dataType":"t","status":"done","data":1}}`,
		`{"type":"dynamic-tool","toolName":"subagent__x","toolCallId":"c1","state":"input-available","input":{},"providerExecuted":true}`,
		`{"type":"data-structured","id":"k1/d","data":{"dataType":"t","status":"done","data":1}}`,
		`{"type":"dynamic-tool","toolName":"search","toolCallId":"k1/c1","state":"input-available","input":{},"providerExecuted":true}`,
		`{"type":"dynamic-tool","toolName":"browser","toolCallId":"k1/c2","state":"input-available","input":{}}`,
		`{"type":"dynamic-tool","toolName":"subagent__x","toolCallId":"c2","state":"input-available","input":{},"providerExecuted":true}`,
		`{"type":"text","text":"open","state":"done"}`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
