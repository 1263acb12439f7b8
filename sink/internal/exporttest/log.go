// Package exporttest writes logs for the tests of exports.
package exporttest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/sink/export"
	"github.com/tailrace/tailrace/subjects"
)

// Log writes the records of sessions as workers do.
type Log struct {
	JS jetstream.JetStream

	t    *testing.T
	last map[chunk.Session]chunk.Ordinal
	now  int64
}

// Start starts a server with an empty log, which ends with the test.
func Start(t *testing.T) *Log {
	t.Helper()
	return &Log{JS: streamtest.Start(t).JetStream(t), t: t, last: map[chunk.Session]chunk.Ordinal{}, now: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC).UnixMilli()}
}

// Put writes a record, 100 ms after the one before by the clock of the writer.
func (l *Log) Put(s chunk.Session, epoch chunk.Epoch, bodies ...chunk.Body) {
	l.t.Helper()
	for _, body := range bodies {
		l.last[s]++
		l.now += 100
		subject, err := subjects.Layout{}.Subject(s)
		if err != nil {
			l.t.Fatal(err)
		}
		m, err := codec.Encode(codec.Envelope{Session: s, Epoch: epoch, Ordinal: l.last[s]}, chunk.Chunk{
			AgentID: s.ID, AgentType: "planner", Timestamp: l.now, Step: 1, Body: body,
		})
		if err != nil {
			l.t.Fatal(err)
		}
		if _, err := l.JS.PublishMsg(l.t.Context(), &nats.Msg{Subject: subject, Header: m.Header, Data: m.Data}); err != nil {
			l.t.Fatal(err)
		}
	}
}

// Turn writes a turn that answers with one step.
func (l *Log) Turn(id, run string) {
	l.t.Helper()
	l.Put(chunk.RootSession("acme", id), 1,
		chunk.RunStarted{RunID: run, Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: "hi"}}},
		chunk.StepStart{}, chunk.TextDelta{Delta: "hello"}, chunk.StepEnd{}, chunk.StreamEnd{StreamID: id})
}

// Conversation writes a turn of two runs with a sub-agent, a tool that fails, and an approval. Each text, argument, result and reason has the word.
func (l *Log) Conversation(id, word string) {
	l.t.Helper()
	root := chunk.RootSession("acme", id)
	child := root.Child("child-" + id)
	value := chunk.Value(`{"q":"` + word + `"}`)
	l.Put(root, 1,
		chunk.RunStarted{
			RunID: "r1", Epoch: 1, Mode: "execute", By: &chunk.Principal{Subject: "ada"}, Provider: new("openai"),
			Input: []chunk.InputMessage{{Content: word, Files: []chunk.InputFile{{URL: "https://f/" + word, MediaType: "image/png"}}}},
		},
		chunk.StepStart{}, chunk.Thinking{Content: word}, chunk.Thinking{Content: word, IsComplete: true}, chunk.TextDelta{Delta: word},
		chunk.ToolArgStreamStart{ToolCallID: "c1", ToolName: "search"}, chunk.ToolArgStreamDelta{ToolCallID: "c1", Delta: word}, chunk.ToolArgStreamEnd{ToolCallID: "c1"},
		chunk.ToolStart{ToolCallID: "c1", ToolName: "search", Arguments: value},
		chunk.ToolStart{ToolCallID: "c2", ToolName: "research", Arguments: value},
		chunk.StepEnd{
			Model: new("gpt-5-mini"), RequestModel: new("gpt-5"), Provider: new("openai"), FinishReason: new("tool-calls"),
			Usage: &chunk.Usage{
				InputTokens: "100", OutputTokens: "20", CachedTokens: new(chunk.Number("40")), CacheWriteTokens: new(chunk.Number("10")),
				ReasoningTokens: new(chunk.Number("5")), Cost: new("0.0125"),
			},
		},
		chunk.ToolEnd{ToolCallID: "c1", ToolName: "search", Error: &word, ErrorCode: new("timeout")},
		chunk.SubagentStart{SubAgentType: "planner", SubSessionID: child.ID, CallID: "c2"})
	l.Put(child, 1,
		chunk.RunStarted{RunID: "k1", Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: word}}, Parent: &chunk.Parent{SessionID: root.ID, CallID: "c2"}},
		chunk.StepStart{}, chunk.TextDelta{Delta: word}, chunk.ToolStart{ToolCallID: "k", ToolName: "read", Arguments: value},
		chunk.ToolEnd{ToolCallID: "k", ToolName: "read", Result: value, ProviderExecuted: new(true)}, chunk.StepEnd{Model: new("gpt-5-mini")},
		chunk.StreamEnd{StreamID: child.ID})
	l.Put(root, 1,
		chunk.SubagentEnd{SubAgentType: "planner", SubSessionID: child.ID, CallID: "c2", Result: value},
		chunk.ToolEnd{ToolCallID: "c2", ToolName: "research", Result: value, ProviderExecuted: new(true)},
		chunk.StepStart{}, chunk.ToolStart{ToolCallID: "c3", ToolName: "delete", Arguments: value},
		chunk.ToolApprovalRequest{ToolCallID: "c3", ToolName: "delete", ApprovalID: "r1::c3", Input: value}, chunk.StepEnd{},
		chunk.RunPaused{RunID: "r1", Reason: word}, chunk.StreamPaused{Reason: &word})
	l.Put(root, 2,
		chunk.RunStarted{RunID: "r2", Epoch: 2, Mode: "with_confirmation"}, chunk.RunResumed{RunID: "r2", FromStepCount: 1, Mode: "with_confirmation"},
		chunk.ToolApprovalResponse{ToolCallID: "c3", ToolName: "delete", ApprovalID: "r1::c3", Approved: true, Reason: &word},
		chunk.ToolEnd{ToolCallID: "c3", ToolName: "delete", Result: value, ProviderExecuted: new(true)},
		chunk.Custom{EventName: "progress", Data: value}, chunk.StepStart{}, chunk.TextDelta{Delta: word}, chunk.StepEnd{FinishReason: new("stop")},
		chunk.Error{Error: word, Recoverable: true}, chunk.StreamEnd{StreamID: root.ID, FinalOutput: &value})
}

// Delete writes the record of a deletion.
func (l *Log) Delete(id string) {
	l.t.Helper()
	l.Put(chunk.RootSession("acme", id), 9, chunk.StreamFailed{Error: "deleted", ErrorDetail: &chunk.ErrorDetail{Message: "deleted", Code: new(chunk.CodeSessionDeleted)}})
}

// Run runs an export to the present end of the log.
func Run(t *testing.T, log *Log, cfg export.Config) {
	t.Helper()
	cfg.NoFollow = true
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	x, err := export.New(log.JS, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Run(ctx); err != nil || ctx.Err() != nil {
		t.Fatal("the export has not delivered everything: ", err, ctx.Err())
	}
}

// Lines is a writer of log lines for tests that look for a word in them.
type Lines struct {
	mu   sync.Mutex
	text []byte
}

func (l *Lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, b...)
	return len(b), nil
}

// String returns everything that was written.
func (l *Lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}
