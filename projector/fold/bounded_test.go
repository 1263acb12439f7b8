package fold

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
)

// TestLawsWithBoundedHeads checks the laws for logs whose open messages are finished because they are large, at any record.
func TestLawsWithBoundedHeads(t *testing.T) {
	for _, size := range []int64{1, 300, 700} {
		t.Run(fmt.Sprintf("bytes=%d", size), func(t *testing.T) {
			smallOpen(t, size)
			lawsOfStorage(t)
		})
	}
}

func smallOpen(t *testing.T, size int64) {
	t.Helper()
	old := openBytes
	openBytes = size
	t.Cleanup(func() { openBytes = old })
}

// TestOpenMessagesAreBounded writes messages that stay open, of each kind: the head has a bounded part of them, and nothing that was written is missing from the
// answer, which is one message for users.
func TestOpenMessagesAreBounded(t *testing.T) {
	const size, total, piece = 64 << 10, 1 << 20, 4000
	smallOpen(t, size)
	text := strings.Repeat("x", piece)
	quoted := chunk.Value(`"` + text + `"`)
	start := func(id string) chunk.Body {
		return chunk.ToolStart{ToolCallID: id, ToolName: "t", Arguments: chunk.Value("{}")}
	}
	for name, body := range map[string]func(i int) chunk.Body{
		"text":      func(int) chunk.Body { return chunk.TextDelta{Delta: text} },
		"reasoning": func(int) chunk.Body { return chunk.Thinking{Content: text} },
		"results after a call without an outcome": func(i int) chunk.Body {
			if i == 0 {
				return start("open")
			}
			return chunk.ToolEnd{ToolCallID: fmt.Sprint(i), ToolName: "t", Result: quoted}
		},
		"calls without an outcome": func(i int) chunk.Body {
			return chunk.ToolApprovalRequest{ToolCallID: fmt.Sprint(i), ToolName: "t", ApprovalID: fmt.Sprint("a", i), Input: quoted}
		},
		"sub-agents": func(i int) chunk.Body {
			id := fmt.Sprint(i / 2)
			if i%2 == 0 {
				return chunk.SubagentStart{SubAgentType: "x", SubSessionID: id, CallID: id}
			}
			return chunk.SubagentEnd{SubAgentType: "x", SubSessionID: id, CallID: id, Result: quoted}
		},
		"ids": func(i int) chunk.Body {
			return chunk.ToolEnd{ToolCallID: fmt.Sprint(text, i), ToolName: "t", Result: chunk.Value("1")}
		},
	} {
		for _, steps := range []int{1 << 30, 10} {
			t.Run(fmt.Sprintf("%s/%d", name, steps), func(t *testing.T) {
				f, sum := New(session), int64(0)
				write := func(body chunk.Body) {
					at := f.Position().Ordinal
					c := chunk.Chunk{AgentID: session.ID, AgentType: "a", Timestamp: 1, Step: int64(int(at) / steps), Body: body}
					data, err := c.AppendJSON(nil)
					if err != nil {
						t.Fatal(err)
					}
					sum += int64(len(data))
					rec := chunk.Record{Seq: chunk.Seq(at + 1), Session: session, Epoch: 1, Ordinal: at + 1, Type: c.Type(), Data: data, SessionBytes: sum}
					if err := f.Apply(rec); err != nil {
						t.Fatal(err)
					}
				}
				write(chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})
				largest, n := 0, 0
				for ; sum < total; n++ {
					write(body(n))
					if n%8 == 0 {
						largest = max(largest, len(f.Snapshot().AppendHead(nil)))
					}
				}
				const others = 128 << 10 // the tail, and the ids of the last calls
				if largest > 10*size+others {
					t.Errorf("a head of %d bytes, want at most %d", largest, 10*size+others)
				}
				write(chunk.ToolEnd{ToolCallID: "open", ToolName: "t", Result: chunk.Value(`"late"`)})
				list := f.Snapshot().AllMessages()
				have, late := 0, false
				for _, m := range list {
					if m.Shown != 0 {
						t.Errorf("message %d is shown as %d", m.Index, m.Shown)
					}
					for _, p := range m.Parts {
						have += len(p.Text)
						if c := p.Call; c != nil {
							have += max(len(c.Output)+len(c.Input), len(c.ID))
							late = late || string(c.Output) == `"late"`
						}
					}
					for _, c := range m.Children {
						have += len(c.Result)
					}
				}
				if want := n / 2 * piece; have < want || name != "sub-agents" && have < 2*want-piece || !late {
					t.Errorf("%d bytes in %d messages of %d records, outcome %v", have, len(list), n, late)
				}
			})
		}
	}
}

// A call that waits, and its sub-agent, can be answered after more output of its turn than a head has: the answer has the call once, with its outcome.
func TestPendingCallBesideLargeOutput(t *testing.T) {
	for name, body := range map[string]func(i int) chunk.Body{
		"results": func(i int) chunk.Body {
			return chunk.ToolEnd{ToolCallID: fmt.Sprint(i), ToolName: "t", Result: chunk.Value(`"` + strings.Repeat("x", 400_000) + `"`)}
		},
		"text": func(int) chunk.Body { return chunk.TextDelta{Delta: strings.Repeat("x", 400_000)} },
	} {
		t.Run(name, func(t *testing.T) {
			f := New(session)
			var sum int64
			write := func(body chunk.Body) {
				rec := record(t, int(f.Position().Ordinal)+1, body)
				sum += int64(len(rec.Data))
				rec.SessionBytes = sum
				if err := f.Apply(rec); err != nil {
					t.Fatal(err)
				}
			}
			write(chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})
			write(chunk.ToolApprovalRequest{ToolCallID: "open", ToolName: "t", ApprovalID: "a", Input: chunk.Value(`{"x":1}`)})
			write(chunk.ToolStart{ToolCallID: "child", ToolName: "subagent__x", Arguments: chunk.Value(`{}`)})
			write(chunk.SubagentStart{SubAgentType: "x", SubSessionID: "k1", CallID: "child"})
			for i := 0; sum < 24<<20; i++ {
				write(body(i))
			}
			if n := len(f.Snapshot().AppendHead(nil)); n > 20<<20 {
				t.Errorf("a head of %d bytes", n)
			}
			if calls := f.Snapshot().PendingCalls(); len(calls) != 1 || calls[0].CallID != "open" || string(calls[0].Input) != `{"x":1}` {
				t.Errorf("pending: %+v", calls)
			}
			if open := f.Snapshot().OpenCalls(); len(open) != 2 || open[1].Child == nil || open[1].Child.Session != "k1" {
				t.Errorf("open: %+v", open)
			}
			write(chunk.ToolApprovalResponse{ToolCallID: "open", ToolName: "t", ApprovalID: "a", Approved: true})
			write(chunk.ToolEnd{ToolCallID: "open", ToolName: "t", Result: chunk.Value(`"late"`)})
			var outcomes []string
			for _, m := range f.Snapshot().AllMessages() {
				for _, p := range m.Parts {
					if p.Call != nil && p.Call.ID == "open" {
						outcomes = append(outcomes, string(p.Call.Input)+string(p.Call.Output))
					}
				}
			}
			if len(outcomes) != 1 || outcomes[0] != `{"x":1}"late"` {
				t.Errorf("outcomes: %q", outcomes)
			}
		})
	}
}
