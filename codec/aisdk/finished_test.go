package aisdk

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
)

// disorder writes a log in which everything about calls happens that a log can have, in any order: ids that are used again, ids that look like those that
// the writer makes, outcomes without a start and a second time, calls of sub-agents, and rollbacks of any records of the message.
func (a *generator) disorder() {
	a.start("execute", chunk.InputMessage{Content: "hello"})
	for range 10 + a.pick("records", 60) {
		a.disorderly()
	}
}

func (a *generator) disorderly() {
	yes, agent := a.pick("yes", 3) > 0, "s1"
	if a.pick("agent", 4) == 0 {
		agent = []string{"k1", "k2"}[a.pick("which", 2)]
	}
	id := []string{"c", "c", "c_2", "c_2_2", "c_3", "k1/c", "k1/c_2", "d", ""}[a.pick("id", 9)]
	name := []string{"search", "search", "browser", "subagent__x", "delete"}[a.pick("tool", 5)]
	args := chunk.Value([]string{`{"q":1}`, `{"q":2}`}[a.pick("args", 2)])
	switch a.pick("record", 19) {
	case 0:
		a.step++
		a.write(chunk.StepStart{})
	case 1:
		a.write(chunk.StepEnd{})
	case 2:
		a.writeAs(agent, chunk.ToolArgStreamStart{ToolCallID: id, ToolName: name})
	case 3:
		a.writeAs(agent, chunk.ToolArgStreamDelta{ToolCallID: id, Delta: "{"})
	case 4, 5, 6:
		a.writeAs(agent, chunk.ToolStart{ToolCallID: id, ToolName: name, Arguments: args})
	case 7, 8, 9:
		a.writeAs(agent, chunk.ToolEnd{ToolCallID: id, ToolName: name, Result: null, ProviderExecuted: &yes})
	case 10:
		a.writeAs(agent, chunk.ToolOutputError{ToolCallID: id, ToolName: name, Error: "boom"})
	case 11:
		a.writeAs(agent, chunk.ToolInputError{ToolCallID: id, ToolName: name, Error: "bad"})
	case 12:
		auto := a.pick("automatic", 3) == 0
		a.writeAs(agent, chunk.ToolApprovalRequest{ToolCallID: id, ToolName: name, ApprovalID: "a" + id, Input: args, IsAutomatic: &auto})
	case 13:
		a.writeAs(agent, chunk.ToolApprovalResponse{ToolCallID: id, ToolName: name, ApprovalID: "a" + id, Approved: yes})
	case 14:
		if a.pick("ended", 2) == 0 {
			a.write(chunk.SubagentEnd{SubAgentType: "x", SubSessionID: "k1", CallID: id})
		} else {
			a.writeAs(agent, chunk.SubagentStart{SubAgentType: "x", SubSessionID: "k1", CallID: id})
		}
	case 15:
		a.write(chunk.TextDelta{Delta: "text"})
	case 16:
		a.write(chunk.StreamPaused{})
		a.epoch++
		a.run++
		a.start("with_confirmation")
	case 17, 18:
		a.rollback()
	}
}

// rollback removes any records of the message.
func (a *generator) rollback() {
	now := int(a.last["s1"])
	var removed []chunk.OrdinalRange
	for range 1 + a.pick("ranges", 2) {
		first := 2 + a.pick("first", now)
		last := first + a.pick("length", 12)
		if a.pick("rest", 3) == 0 {
			last = now
		}
		if first <= last {
			removed = append(removed, chunk.OrdinalRange{First: int64(first), Last: int64(last)})
		}
	}
	if len(removed) > 0 {
		a.write(chunk.Truncated{TruncatedAtStep: a.step, AtSequence: int64(a.seq), Removed: removed})
	}
}

// eachFrame passes the frames of a log to do: as it is written, after a cursor, and in a replay with the rest of the log after it.
func eachFrame(m func() *MessageWriter, recs []chunk.Record, cut int, do func([]byte)) {
	live := m()
	for _, rec := range recs {
		if live.Done() {
			live.Continue()
		}
		do(live.Append(nil, rec))
	}
	for _, seen := range []int{0, cut} {
		late := m()
		for _, rec := range recs[:seen] {
			late.Advance(rec)
		}
		end := max(seen, len(recs)-cut/2)
		do(late.Replay(nil, recs[seen:end]))
		for _, rec := range recs[end:] {
			if late.Done() {
				late.Continue()
			}
			do(late.Append(nil, rec))
		}
		do(late.Finish(nil))
	}
}

// TestFinishedCallsChangeNoFrame checks that a writer that stores calls with an outcome in their short form writes the same bytes as one that keeps them.
func TestFinishedCallsChangeNoFrame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := newGenerator(t)
		if a.pick("form", 5) == 0 {
			a.turn()
		} else {
			a.disorder()
		}
		opt := a.options()
		opt.NoSteps = a.pick("no steps", 6) == 0
		cut := a.pick("cut", len(a.log)+1)
		keeps := func() *MessageWriter {
			m := New("msg-1", opt)
			m.keepCalls = true
			return m
		}
		var want []string
		eachFrame(keeps, a.log, cut, func(frames []byte) { want = append(want, string(frames)) })
		n := 0
		eachFrame(func() *MessageWriter { return New("msg-1", opt) }, a.log, cut, func(frames []byte) {
			if string(frames) != want[n] {
				t.Fatalf("frames %d:\n%s\nwant\n%s\nof %s", n, frames, want[n], a)
			}
			n++
		})
	})
}

// TestFinishedCallsAreStored checks that the stored calls are those that were added, and that they are found under their ids and no others.
func TestFinishedCallsAreStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		length := rapid.SampledFrom([]int{1, 5, 29, 1000, blockSize - 1, blockSize + 1})
		var f finishedCalls
		var want []call
		shown := map[string]bool{}
		for n := range rapid.IntRange(1, 300).Draw(t, "calls") {
			key := callKey{id: strings.Repeat("x", length.Draw(t, "length")) + strconv.Itoa(n%50)}
			if rapid.IntRange(0, 3).Draw(t, "agent") == 0 {
				key.agent = "k" + strconv.Itoa(n%3)
			}
			suffix := 1
			for shown[key.shownID(suffix)] {
				suffix++
			}
			c := newCall(key, suffix)
			shown[c.id] = true
			at := rapid.Uint64Range(0, 1<<40)
			ordinal := func(name string) chunk.Ordinal { return chunk.Ordinal(at.Draw(t, name)) }
			c.completed, c.client = true, rapid.Bool().Draw(t, "client")
			c.number, c.begunAt, c.completedAt = n, ordinal("begun"), ordinal("completed")
			if c.sent = rapid.Bool().Draw(t, "sent"); c.sent {
				c.sentAt, c.inputHash = ordinal("sent at"), rapid.Uint64().Draw(t, "hash")
			}
			if c.delegated = rapid.Bool().Draw(t, "delegated"); c.delegated {
				c.delegatedIn = rapid.IntRange(0, 1<<30).Draw(t, "step")
			}
			f.add(c)
			want = append(want, *c)
		}
		n := 0
		f.each(func(c *finishedCall) {
			if got := c.call(); !reflect.DeepEqual(*got, want[n]) {
				t.Fatalf("call %d is\n%+v, want\n%+v", n, *got, want[n])
			}
			n++
		})
		if n != len(want) {
			t.Fatalf("%d calls, want %d", n, len(want))
		}
		for i := range want {
			c := &want[i]
			stored, ok := f.find(c.id)
			if !ok || stored.key() != c.key || stored.suffix != c.suffix {
				t.Fatalf("%q is found: %t, as %+v", c.id, ok, stored.key())
			}
			if f.has(c.key) != slices.ContainsFunc(want, func(o call) bool { return o.key == c.key && o.suffix == 1 }) {
				t.Fatalf("%+v is in the message: %t", c.key, f.has(c.key))
			}
			for _, other := range []string{c.id + "_1", c.id + "x", c.id + "_", "/" + c.id, c.id[1:]} {
				if _, ok := f.find(other); ok != shown[other] {
					t.Fatalf("%q is found: %t", other, ok)
				}
			}
		}
	})
}

// TestRollbackOfFinishedCalls: a rollback may reach calls that have their outcome. The latest call with an id decides, also if an earlier one is open again.
func TestRollbackOfFinishedCalls(t *testing.T) {
	yes := true
	start := chunk.ToolStart{ToolCallID: "c", ToolName: "search", Arguments: chunk.Value(`{}`)}
	end := chunk.ToolEnd{ToolCallID: "c", ToolName: "search", Result: null, ProviderExecuted: &yes}
	removes := func(first, last int64) chunk.Body {
		return chunk.Truncated{Removed: []chunk.OrdinalRange{{First: first, Last: last}}}
	}
	m := New("msg-1", Options{})
	for i, r := range []struct {
		body chunk.Body
		want string // in the frames, "" for no frame of a call
	}{
		{chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"}, ""},
		{start, `"tool-input-available","toolCallId":"c"`}, // 2
		{end, `"tool-output-available","toolCallId":"c"`},
		{end, ""},
		{start, `"tool-input-available","toolCallId":"c_2"`}, // 5
		{end, `"tool-output-available","toolCallId":"c_2"`},
		{removes(3, 3), ""}, // c is open
		{end, ""},           // of c_2
		{removes(5, 6), ""}, // no c_2
		{end, `"tool-output-available","toolCallId":"c"`},
		{start, `"tool-input-available","toolCallId":"c_2"`},
		{removes(2, 11), ""},
		{end, `"tool-input-available","toolCallId":"c"`}, // shown before its outcome
	} {
		data, err := chunk.Chunk{AgentID: session.ID, AgentType: "a", Timestamp: 1, Body: r.body}.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		got := string(m.Append(nil, chunk.Record{
			Seq: chunk.Seq(i + 1), Session: session, Epoch: 1, Ordinal: chunk.Ordinal(i + 1), Type: r.body.Type(), Data: data,
		}))
		if r.want == "" && strings.Contains(got, "toolCallId") || !strings.Contains(got, r.want) {
			t.Errorf("record %d: got %q, want %q", i+1, got, r.want)
		}
	}
}
