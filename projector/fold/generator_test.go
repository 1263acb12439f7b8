package fold

import (
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
)

var session = chunk.RootSession("acme", "s1")

// generator writes random logs of one session with cleanups. all has every record that was written, removed the removed ones.
type generator struct {
	t       *rapid.T
	all     []chunk.Record
	removed []int // per record: index in all of the truncated record that removed it, 0 for none
	steps   []int64
	seq     chunk.Seq
	epoch   chunk.Epoch
	step    int64
	run     int
	bytes   int64
}

func newGenerator(t *rapid.T) *generator { return &generator{t: t, epoch: 1} }

// write appends one record.
func (a *generator) write(body chunk.Body, extra ...chunk.Member) {
	c := chunk.Chunk{AgentID: session.ID, AgentType: "agent", Timestamp: 1, Step: a.step, Body: body, Extra: extra}
	data, err := c.AppendJSON(nil)
	if err != nil {
		a.t.Fatalf("%T: %v", body, err)
	}
	a.raw(c.Type(), data)
}

func (a *generator) raw(typ chunk.Type, data []byte) {
	a.seq += chunk.Seq(1 + len(a.all)%3)
	a.bytes += int64(len(data))
	a.all = append(a.all, chunk.Record{
		Seq: a.seq, Session: session, Epoch: a.epoch, Ordinal: chunk.Ordinal(len(a.all) + 1),
		Type: typ, StoredAt: time.UnixMilli(1), Data: data, SessionBytes: a.bytes,
	})
	a.removed = append(a.removed, 0)
	a.steps = append(a.steps, a.step)
}

func pick[T any](a *generator, what string, of ...T) T { return rapid.SampledFrom(of).Draw(a.t, what) }

// log writes a random log of up to n actions.
func (a *generator) log(n int) {
	if rapid.IntRange(0, 9).Draw(a.t, "import") > 0 {
		a.start("execute")
	}
	for range rapid.IntRange(0, n).Draw(a.t, "n") {
		a.act()
	}
}

func (a *generator) act() {
	switch k := rapid.IntRange(0, 99).Draw(a.t, "act"); {
	case k < 20:
		a.write(chunk.TextDelta{Delta: pick(a, "delta", "a", "b ", "", "\xed\xa0\xbd", "\xed\xb8\x80", "é\"\n", "\u2028")})
	case k < 30:
		a.write(chunk.Thinking{Content: pick(a, "thought", "a", "ab", "", "\xed\xb8\x80"), IsComplete: rapid.Bool().Draw(a.t, "complete")})
	case k < 58:
		a.tool()
	case k < 63:
		a.child()
	case k < 72:
		a.things()
	case k < 82:
		a.stepwise()
	case k < 86:
		a.aboutRun()
	case k < 88:
		a.raw("new_kind", []byte(`{"type":"new_kind","agentId":"s1","agentType":"agent","timestamp":1,"step":9,"x":1}`))
	case k < 89:
		a.raw(chunk.TypeTextDelta, []byte(`{"type":"text_delta"}`))
	case k < 97:
		a.control()
	default:
		a.cleanUp()
	}
}

func (a *generator) tool() {
	id := pick(a, "call", "c1", "c2", "c3")
	name := pick(a, "name", "search", "search", "subagent__x", "__finish__")
	yes, no := true, false
	switch pick(a, "tool", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10) {
	case 0:
		a.write(chunk.ToolArgStreamStart{ToolCallID: id, ToolName: name})
	case 1:
		a.write(chunk.ToolArgStreamDelta{ToolCallID: id, Delta: pick(a, "args", `{"q`, `":1}`, "\xed\xa0\xbd", "\xed\xb8\x80")})
	case 2:
		a.write(chunk.ToolArgStreamEnd{ToolCallID: id})
	case 3, 4:
		a.write(chunk.ToolStart{ToolCallID: id, ToolName: name, Arguments: chunk.Value(`{"q":1}`)})
	case 5:
		a.write(chunk.ToolEnd{ToolCallID: id, ToolName: name, Result: chunk.Value(`{"r":[1,"\ud800"]}`), ProviderExecuted: pick(a, "by", nil, &yes, &no)})
	case 6:
		boom := "boom"
		a.write(chunk.ToolEnd{ToolCallID: id, ToolName: name, Result: chunk.Value(`null`), Error: &boom})
	case 7:
		partial := chunk.Value(`{"q":` + `2}`)
		a.write(chunk.ToolInputError{ToolCallID: id, ToolName: name, Error: "bad", PartialInput: pick(a, "partial", nil, &partial)})
	case 8:
		a.write(chunk.ToolOutputError{ToolCallID: id, ToolName: name, Error: "broke"})
	case 9:
		a.write(chunk.ToolApprovalRequest{ToolCallID: id, ToolName: name, ApprovalID: "r::" + id, Input: chunk.Value(`{"q":3}`), IsAutomatic: pick(a, "auto", nil, &yes)}, a.until()...)
	case 10:
		reason := "because"
		a.write(chunk.ToolApprovalResponse{ToolCallID: id, ToolName: name, ApprovalID: "r::" + id, Approved: rapid.Bool().Draw(a.t, "approved"), Reason: pick(a, "reason", nil, &reason)})
	}
}

func (a *generator) child() {
	id := pick(a, "child", "k1", "k2")
	call := "c" + id[1:] // a child has one call
	if rapid.Bool().Draw(a.t, "start") {
		a.write(chunk.SubagentStart{SubAgentType: "x", SubSessionID: id, CallID: call})
	} else {
		a.write(chunk.SubagentEnd{SubAgentType: "x", SubSessionID: id, CallID: call, Result: pick(a, "result", chunk.Value(`"ok"`), chunk.Value(`{"error":{"message":"m"}}`))})
	}
}

func (a *generator) things() {
	name := "n\xed\xa0\x80"
	switch pick(a, "thing", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9) {
	case 7, 8, 9:
		a.structured()
	case 0:
		a.write(chunk.Custom{EventName: "progress", Data: chunk.Value(`{"p":0.5}`)})
	case 1:
		a.write(chunk.File{URL: "https://f", MediaType: "image/png", Filename: pick(a, "file", nil, &name)})
	case 2:
		a.write(chunk.SourceURL{SourceID: "1", URL: "https://u", Title: pick(a, "title", nil, &name)})
	case 3:
		a.write(chunk.SourceDocument{SourceID: "2", MediaType: "text/plain", Title: "t"})
	default:
		a.write(chunk.StatePatch{Patches: slices.Collect(func(yield func(chunk.PatchOp) bool) {
			for range rapid.IntRange(0, 3).Draw(a.t, "ops") {
				v := chunk.Value(pick(a, "value", `1`, `{"x":[]}`, `"\ud800"`, `null`))
				from := pick(a, "from", "/a", "/b/x")
				yield(chunk.PatchOp{Op: pick(a, "op", "add", "add", "add", "remove", "copy", "test"), Path: pick(a, "path", "/a", "/b", "/b/x", "/b/x/-"), Value: &v, From: &from})
			}
		})})
	}
}

func (a *generator) structured() {
	id := pick(a, "stream", "d1", "d2", "d3")
	data := fmt.Sprintf(`{"type":"structured-data","streamId":%q,"dataType":"t",%s}`, id, pick(a, "piece",
		`"kind":"set","path":"a.b","value":1`, `"kind":"set","path":"a.b","value":1`,
		`"kind":"text-delta","path":"t","delta":"x"`, `"kind":"text-delta","path":"a.b","delta":"x"`,
		`"kind":"append","path":"l","items":[1,"\ud800"]`, `"kind":"set","path":"0","value":null`,
		`"kind":"final","data":{"f":[1]}`, `"kind":"final"`, `"kind":"none"`))
	switch rapid.IntRange(0, 9).Draw(a.t, "event") {
	case 0:
		a.write(chunk.Custom{EventName: "structured-data-invalidated", Data: chunk.Value(fmt.Sprintf(`{"streamId":%q}`, id))})
	case 1:
		a.write(chunk.Custom{EventName: pick(a, "bad", "structured-data-invalidated", "structured-data"), Data: chunk.Value(`{"streamId":1}`)})
	default:
		a.write(chunk.Custom{EventName: "structured-data", Data: chunk.Value(data)})
	}
}

// until returns a deadline, or none.
func (a *generator) until() []chunk.Member {
	if rapid.Bool().Draw(a.t, "until") {
		return nil
	}
	return []chunk.Member{{Name: "deadline", Value: chunk.Value(pick(a, "deadline", "1760000000000", `"soon"`, "-1"))}}
}

func (a *generator) stepwise() {
	n := chunk.Number("7")
	reason := "tool-calls"
	switch pick(a, "stepwise", 0, 1, 2, 3, 4) {
	case 0, 1:
		a.step++
		a.write(chunk.StepStart{})
	case 2:
		a.step++
		a.write(chunk.TextDelta{Delta: "next "})
	case 3:
		a.write(chunk.StepEnd{Usage: &chunk.Usage{InputTokens: "10", OutputTokens: "3.7", CachedTokens: pick(a, "cached", nil, &n)}, FinishReason: pick(a, "why", nil, &reason)})
	case 4:
		a.write(chunk.CheckpointCreated{RunID: "r", CheckpointID: fmt.Sprintf("cp%d", len(a.all)), StepCount: a.step})
	}
}

func (a *generator) aboutRun() {
	id := pick(a, "call", "c1", "c2")
	switch pick(a, "run", 0, 1, 2, 3, 4, 5, 6, 7) {
	case 0:
		a.write(chunk.RunInterrupted{RunID: "r", CheckpointID: pick(a, "cp", nil, &id)})
	case 1:
		a.write(chunk.RunResumed{RunID: "r", FromStepCount: 1, Mode: "continue"})
	case 2:
		a.write(chunk.RunPaused{RunID: "r", Reason: "waits", PendingToolCallID: &id}, a.until()...)
	case 3:
		a.write(chunk.SuspensionMarker{Kind: "suspended_client_tool", Payload: chunk.Value(pick(a, "payload", `{"toolCallIds":["c1","c3"]}`, `{"toolCallIds":["c1","c3"],"deadline":17}`))})
	case 4:
		a.write(chunk.StreamResync{CheckpointID: "cp0", Reason: "retry"})
	case 5:
		a.write(chunk.Error{Error: "oops\xed\xa0\x80", Code: pick(a, "code", nil, &id), Recoverable: rapid.Bool().Draw(a.t, "recoverable")})
	case 6:
		a.write(chunk.Output{Output: chunk.Value(`{"o":1}`)})
	case 7:
		a.write(chunk.ExecutorSuperseded{})
	}
}

func (a *generator) control() {
	switch pick(a, "control", 0, 1, 2, 3, 4, 5, 6, 7) {
	case 0, 1:
		a.start("execute")
	case 2:
		a.start("continue")
	case 3:
		a.start("takeover")
	case 4:
		a.write(chunk.StreamPaused{})
	case 5:
		a.write(chunk.StreamActive{})
	case 6:
		out := chunk.Value(`{"final":true}`)
		a.write(chunk.StreamEnd{StreamID: "s1", FinalOutput: pick(a, "out", nil, &out)})
	case 7:
		a.write(chunk.StreamFailed{Error: "dead"})
	}
}

func (a *generator) start(mode string) {
	if len(a.all) > 0 {
		a.epoch++
	}
	if mode != "takeover" || a.run == 0 {
		a.run++
	}
	step := a.step
	a.step = 0
	hide := chunk.Value(`{"hidden":true}`)
	var input []chunk.InputMessage
	for range rapid.IntRange(0, 2).Draw(a.t, "inputs") {
		input = append(input, chunk.InputMessage{
			Content: pick(a, "content", "hello", ""), Metadata: pick(a, "metadata", nil, &hide),
			Files: pick(a, "files", nil, []chunk.InputFile{{URL: "https://i", MediaType: "image/png"}}),
		})
	}
	if len(input) > 0 && mode == "execute" {
		if place := pick(a, "replaces", "", "", `"msg-0"`, `"msg-1"`, `"msg-3"`, `"msg-99"`, `"msg-03"`, `7`); place != "" {
			name := pick(a, "member", ReplacesMember, FollowsMember)
			input[0].Extra = []chunk.Member{{Name: name, Value: chunk.Value(place)}}
		}
	}
	a.write(chunk.RunStarted{RunID: fmt.Sprintf("r%d", a.run), Epoch: int64(a.epoch), Mode: mode, Input: input})
	if mode != "execute" {
		a.step = step
	}
}

// cleanUp writes a truncated record like a writer: for chunks of a later step after a first sequence, without control records,
// and only if there are any.
func (a *generator) cleanUp() {
	step := int64(rapid.IntRange(-1, 3).Draw(a.t, "step"))
	minSeq := chunk.Seq(rapid.IntRange(0, int(a.seq)).Draw(a.t, "minSeq"))
	if rapid.Bool().Draw(a.t, "near") && len(a.all) > 0 {
		minSeq = a.all[max(0, len(a.all)-6)].Seq
	}
	truncation := chunk.Truncated{TruncatedAtStep: max(0, step), MinSequence: int64(minSeq), AtSequence: int64(a.seq)}
	for i, rec := range a.all {
		if a.removed[i] != 0 || rec.Type.Control() || a.steps[i] <= step || rec.Seq <= minSeq {
			continue
		}
		a.removed[i] = len(a.all)
		o := int64(rec.Ordinal)
		if n := len(truncation.Removed); n > 0 && truncation.Removed[n-1].Last == o-1 {
			truncation.Removed[n-1].Last = o
		} else {
			truncation.Removed = append(truncation.Removed, chunk.OrdinalRange{First: o, Last: o})
		}
		if truncation.FromSequence == 0 {
			truncation.FromSequence = int64(rec.Seq)
		}
	}
	if len(truncation.Removed) == 0 {
		return
	}
	a.step = min(a.step, max(0, step))
	a.write(truncation)
}

// survivors returns the first n records without those that a truncated record among them removed.
func (a *generator) survivors(n int) []chunk.Record {
	var out []chunk.Record
	for i, rec := range a.all[:n] {
		if a.removed[i] == 0 || a.removed[i] >= n {
			out = append(out, rec)
		}
	}
	return out
}
