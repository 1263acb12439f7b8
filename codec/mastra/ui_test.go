package mastra

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/projector/fold"
)

// differences has the allowed differences between the message of Tailrace and the message of the original adapter, each with the reason. Everything else must
// be equal. A difference that no case needs fails the test.
var differences = map[string]string{
	"tool type":         "the original names a tool in the type of its part; Tailrace has dynamic-tool parts with a toolName",
	"providerExecuted":  "results are marked as executed by the server, so that no client repeats the call",
	"block id":          "parts have no ids of their own: provider metadata and the ids of blocks and of data do not get into the log",
	"text open":         "interrupted text stays open in the original; in Tailrace no text is open when the run has ended or waits",
	"empty text":        "an empty text or reasoning has no part",
	"silent step":       "a step without parts has no boundary",
	"structured output": "the final object is the output of the run, not a part",
	"tripwire":          "the message of a guard is an error of the run, not a part",
	"approval data":     "an approval is in the tool's part and among the pending calls, without a data part",
	"kept whole":        "a chunk without a counterpart is kept complete; the original shows another excerpt of it, or nothing",
	"tool progress":     "output of a running tool is kept; the original shows it for nested chunks only",
	"data replaced":     "in the original a data part replaces an earlier one with its id; Tailrace's have no ids, and all are kept",
	"error result":      "a result that is an error is shown as one; the original shows it as success",
	"error text":        "an error is shown with its text; the original shows it as JSON",
	"denial":            "the decision is shown with its reason, which the original drops",
	"filename":          "a file keeps its name, which the original drops",
	"sub-agent":         "a sub-agent has a session of its own; the original repeats its complete output in every data part",
	"workflow snapshot": "the steps of workflows and networks are events; the original assembles snapshots of them",
	"network":           "the calls and approvals of a network are those of an agent; the original has them in its snapshot, and in the stream of an agent nowhere",
	"workflow steps":    "a step of a workflow is a step of the answer; the original has no boundaries there",
	"second tool part":  "a dynamic call is one part; the original makes a second one that never gets its outcome",
	"late arguments":    "arguments that were not streamed are those of the call; the original has none then",
	"no arguments":      "a call whose arguments could not be parsed has the input {}; the original has none",
	"provider metadata": "reasoning keeps what its provider wants back; the original drops it",
	"opt-in":            "reasoning and sources are always kept; the original has an option for them",
	"original fails":    "the original stops at this chunk, with an error; this package continues, with the same first parts",
	"text after finish": "text after a finish is in no step; the original continues the last step",
}

// The message for a recorded case equals the message of the original adapter, except for the listed differences.
func TestSameMessageAsTheOriginal(t *testing.T) {
	used := map[string]int{}
	compared := 0
	for _, r := range cases(t) {
		t.Run(r.Name, func(t *testing.T) {
			all := snapshots(t, r)
			c := comparison{T: t, rec: r, snap: all[root.ID], all: all, used: used}
			c.serverSide = answer(t, c.snap)
			if ui := r.Expect.UI; ui.Message != nil {
				c.original = ui.Message.Parts
			}
			c.run()
			compared += len(c.original)
		})
	}
	for name := range differences {
		if used[name] == 0 {
			t.Errorf("no case has the difference %q any more", name)
		}
	}
	if compared < 90 {
		t.Errorf("%d parts were compared, want the 90 that there are", compared)
	}
}

type part = map[string]any

// answer returns the only answer of a snapshot.
func answer(tb fataler, s fold.Snapshot) []part {
	tb.Helper()
	var parts []part
	for _, m := range aisdk.Snapshot(s, aisdk.SnapshotOptions{}).Messages {
		if m.Role != fold.Assistant {
			continue
		}
		for _, raw := range m.Parts {
			var p part
			if err := json.Unmarshal(raw, &p); err != nil {
				tb.Fatal(err)
			}
			parts = append(parts, p)
		}
	}
	return parts
}

// comparison removes the listed differences from both messages, step by step.
type comparison struct {
	*testing.T

	rec recording

	snap                 fold.Snapshot
	all                  map[string]fold.Snapshot
	serverSide, original []part
	used                 map[string]int
}

func (c *comparison) note(difference string) {
	c.Helper()
	if differences[difference] == "" {
		c.Fatalf("%q is not listed", difference)
	}
	c.used[difference]++
}

func (c *comparison) run() {
	c.original = edit(c.original, c.originalPart)
	c.serverSide = edit(c.serverSide, c.tailracePart)
	c.replaceData()
	c.original, c.serverSide = c.withoutSilentSteps(c.original), c.withoutSilentSteps(c.serverSide)
	c.errors()
	want, got := c.original, c.serverSide
	if c.rec.Expect.UI.Error != "" && len(got) > len(want) {
		c.note("original fails")
		got = got[:len(want)]
	}
	if len(want)+len(got) > 0 && !reflect.DeepEqual(want, got) {
		c.Errorf("got  %s\nwant %s", asJSON(got), asJSON(want))
	}
}

// errors fails the test if an error of the original is missing in Tailrace's messages.
func (c *comparison) errors() {
	var first string
	for _, raw := range c.rec.Chunks {
		m := dialect.Read(mustCheck(c, raw))
		if kind, _ := m.Text("type"); kind == "error" && first == "" {
			first = failureText(m.Object("payload").Peek("error"))
		}
	}
	if first == "" {
		return
	}
	if len(c.snap.Errors) == 0 || c.snap.Errors[0].Message != first || !strings.Contains(c.rec.Expect.UI.Error, first) {
		c.Errorf("errors %+v, want one that says %q as the original: %s", c.snap.Errors, first, c.rec.Expect.UI.Error)
	}
}

func edit(parts []part, change func(part) part) []part {
	var out []part
	for _, p := range parts {
		if p = change(p); p != nil {
			out = append(out, p)
		}
	}
	return out
}

// originalPart returns a part of the original message without the members that Tailrace omits on purpose, or nil if none remain.
func (c *comparison) originalPart(p part) part {
	kind, _ := p["type"].(string)
	c.drop(p, "block id", "id", "providerMetadata")
	switch {
	case kind == "text" || kind == "reasoning":
		return c.originalText(p, kind)
	case strings.HasPrefix(kind, "tool-") || kind == "dynamic-tool":
		return c.originalTool(p, kind)
	case kind == "data-structured-output":
		c.note("structured output")
		data, _ := p["data"].(part)
		c.sameJSON(c.snap.Run.Output, data["object"])
		return nil
	case kind == "data-tripwire":
		c.note("tripwire")
		data, _ := p["data"].(part)
		if !slices.ContainsFunc(c.snap.Errors, func(e fold.Error) bool { return e.Code == "tripwire" && e.Message == data["reason"] }) {
			c.Errorf("errors %+v, want a tripwire %v", c.snap.Errors, data["reason"])
		}
		return nil
	case kind == "data-tool-call-approval":
		c.note("approval data")
		data, _ := p["data"].(part)
		if tool := c.tool(data["toolCallId"]); tool == nil || tool["approval"] == nil {
			c.Errorf("the call of %v has no approval", data)
		}
		return nil
	case kind == "data-tool-call-suspended" || strings.HasPrefix(kind, "data-background-task-"):
		c.note("kept whole")
		c.keptWhole(strings.TrimPrefix(kind, "data-"), p["data"])
		return nil
	case kind == "data-tool-agent" || kind == "data-tool-agent-step":
		c.note("sub-agent")
		c.inChildSession(p)
		return nil
	case slices.Contains([]string{"data-workflow", "data-workflow-step", "data-tool-workflow", "data-tool-workflow-step", "data-network"}, kind):
		c.note("workflow snapshot")
		return nil
	}
	return p
}

func (c *comparison) originalText(p part, kind string) part {
	text, _ := p["text"].(string)
	switch {
	case text == "":
		c.note("empty text")
		return nil
	case p["state"] == "streaming":
		c.note("text open")
		p["state"] = "done"
	}
	return p
}

func (c *comparison) originalTool(p part, kind string) part {
	id, _ := p["toolCallId"].(string)
	if name, ok := strings.CutPrefix(kind, "tool-"); ok {
		c.note("tool type")
		p["type"], p["toolName"] = "dynamic-tool", name
	}
	for _, other := range c.original {
		if other["toolCallId"] == id && other["state"] == "output-available" && p["state"] == "input-available" {
			c.note("second tool part")
			return nil
		}
	}
	if result := c.payload("tool-result", id); p["state"] == "output-available" && result["isError"] == true {
		c.note("error result")
		p["state"], p["errorText"] = "output-error", p["output"]
		delete(p, "output")
	}
	if failed := c.payload("tool-error", id); failed != nil {
		c.note("error text")
		text, _ := p["errorText"].(string)
		why, _ := failed["error"].(part)
		c.sameJSON([]byte(text), failed["error"])
		p["errorText"] = why["message"]
	}
	call := c.payload("tool-call", id)
	switch {
	case call["args"] != nil && !reflect.DeepEqual(p["input"], call["args"]):
		c.note("late arguments")
		p["input"] = call["args"]
	case p["input"] == nil:
		c.note("no arguments")
		p["input"] = part{}
	}
	return p
}

// tailracePart returns a part of Tailrace's message without the members that the original omits.
func (c *comparison) tailracePart(p part) part {
	kind, _ := p["type"].(string)
	switch {
	case c.inNetwork() && (c.rec.Opts["from"] != "network" && kind == "text" || kind == "dynamic-tool"):
		c.note("network")
		return nil
	case kind == "dynamic-tool":
		c.drop(p, "providerExecuted", "providerExecuted")
		if approval, _ := p["approval"].(part); approval["approved"] == false {
			c.drop(approval, "denial", "approved", "reason")
		}
	case kind == "file":
		c.drop(p, "filename", "filename")
	case strings.HasPrefix(kind, "data-mastra."):
		c.note("kept whole")
		c.recorded(p["data"])
		return nil
	case kind == "data-tool-output":
		c.note("tool progress")
		data, _ := p["data"].(part)
		c.recorded(data["output"])
		return nil
	case kind == "reasoning" && c.rec.Opts["reasoning"] == nil, strings.HasPrefix(kind, "source-") && c.rec.Opts["sources"] == nil:
		c.note("opt-in")
		return nil
	case kind == "reasoning" && !slices.ContainsFunc(c.original, func(o part) bool { return o["providerMetadata"] != nil }):
		c.drop(p, "provider metadata", "providerMetadata")
	}
	return p
}

func (c *comparison) drop(p part, difference string, names ...string) {
	for _, name := range names {
		if _, ok := p[name]; ok {
			c.note(difference)
			delete(p, name)
		}
	}
}

// replaceData replaces an earlier data part with the same type and id.
func (c *comparison) replaceData() {
	ids := map[string]bool{}
	for i, raw := range c.rec.Chunks {
		m := dialect.Read(mustCheck(c, raw))
		kind, _ := m.Text("type")
		id, ok := m.Text("id")
		if !ok || !strings.HasPrefix(kind, "data-") {
			continue
		}
		if ids[kind+"/"+id] {
			c.note("data replaced")
			first := slices.IndexFunc(c.serverSide, func(p part) bool { return p["type"] == kind })
			if first < 0 {
				c.Fatalf("chunk %d is not shown", i)
			}
			c.serverSide = slices.Delete(c.serverSide, first, first+1)
		}
		ids[kind+"/"+id] = true
	}
}

// withoutSilentSteps removes step boundaries without a compared part after them.
func (c *comparison) withoutSilentSteps(parts []part) []part {
	var out []part
	for i, p := range parts {
		silent := i+1 == len(parts) || parts[i+1]["type"] == "step-start"
		if p["type"] == "step-start" && silent {
			c.note("silent step")
			continue
		}
		if p["type"] == "step-start" && (c.rec.Opts["from"] == "workflow" || c.inNetwork()) {
			c.note("workflow steps")
			continue
		}
		if p["type"] == "step-start" && c.rec.Name == "broken/chunks-after-finish/raw" {
			c.note("text after finish")
			continue
		}
		out = append(out, p)
	}
	return out
}

// payload returns the payload of the first chunk of a type for a call, or nil.
func (c *comparison) payload(kind, callID string) part {
	for _, raw := range c.rec.Chunks {
		var m struct {
			Type    string `json:"type"`
			Payload part   `json:"payload"`
		}
		if json.Unmarshal(raw, &m) == nil && m.Type == kind && m.Payload["toolCallId"] == callID {
			return m.Payload
		}
	}
	return nil
}

// tool returns Tailrace's part of a call.
func (c *comparison) tool(callID any) part {
	for _, p := range c.serverSide {
		if p["toolCallId"] == callID {
			return p
		}
	}
	return nil
}

// keptWhole fails the test if Tailrace's messages lack a value that the original has.
func (c *comparison) keptWhole(kind string, data any) {
	excerpt, _ := data.(part)
	for _, p := range c.serverSide {
		if p["type"] != "data-mastra."+kind {
			continue
		}
		whole, _ := p["data"].(part)
		payload, _ := whole["payload"].(part)
		for name, value := range excerpt {
			if name != "state" && name != "runId" && !reflect.DeepEqual(payload[name], value) {
				c.Errorf("%s.%s is %v, want %v", kind, name, payload[name], value)
			}
		}
		return
	}
	c.Errorf("%s is not kept", kind)
}

// recorded fails the test if a value of Tailrace's messages is not in a recorded chunk, or, of a rest, its members.
func (c *comparison) recorded(kept any) {
	text := asJSON(kept)
	for _, raw := range c.rec.Chunks {
		var whole any
		if err := json.Unmarshal([]byte(asJSON(raw)), &whole); err != nil {
			c.Fatal(err)
		}
		if strings.Contains(asJSON(raw), text) || hasMembers(whole, kept) {
			return
		}
	}
	c.Errorf("%s came in no chunk", text)
}

// hasMembers reports whether a value has all members of another one, at each depth.
func hasMembers(whole, some any) bool {
	members, ok := some.(map[string]any)
	of, isObject := whole.(map[string]any)
	if !ok || !isObject {
		return reflect.DeepEqual(whole, some)
	}
	for name, value := range members {
		if !hasMembers(of[name], value) {
			return false
		}
	}
	return true
}

// inChildSession fails the test if the output of a sub-agent is not in its own session.
func (c *comparison) inChildSession(p part) {
	data, _ := p["data"].(part)
	chunks, _ := data["text"].(string)
	for id, s := range c.all {
		for _, p := range answer(c, s) {
			if id != root.ID && p["text"] == chunks {
				return
			}
		}
	}
	if chunks != "" {
		c.Errorf("no session of a sub-agent has %q", chunks)
	}
}

// inNetwork reports whether the chunks are of a network.
func (c *comparison) inNetwork() bool {
	for _, raw := range c.rec.Chunks {
		if strings.Contains(asJSON(raw), `"from":"NETWORK"`) {
			return true
		}
	}
	return false
}

func (c *comparison) sameJSON(got []byte, want any) {
	c.Helper()
	var v any
	if err := json.Unmarshal(got, &v); err != nil || !reflect.DeepEqual(v, want) {
		c.Errorf("%s, want %s", got, asJSON(want))
	}
}

// asJSON encodes a value with sorted names.
func asJSON(v any) string {
	if raw, ok := v.(json.RawMessage); ok {
		var whole any
		if json.Unmarshal(raw, &whole) == nil {
			v = whole
		}
	}
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func mustCheck(tb fataler, raw []byte) chunk.Value {
	tb.Helper()
	v, err := dialect.CheckValue(raw)
	if err != nil {
		tb.Fatal(err)
	}
	return v
}
