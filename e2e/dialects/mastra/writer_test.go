//go:build e2e

package mastra

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/codec/mastra"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
	"github.com/tailrace/tailrace/projector/fold"
)

var logs = flag.Int("logs", 60, "number of generated logs")

const doneFrame = "data: [DONE]\n\n"

// answer is the responses to a client that reads a turn: another one begins after each end, and after the records of the cuts.
type answer struct {
	bodies  []string
	broken  []bool // the response was cut
	through []int  // the number of records until its end
	cut     bool   // the client reconnects after a record that ends no response
}

// read writes the records for a client that reconnects with its cursor after the first cut records. Each response is that of another process, which reads the
// records up to the cursor first.
func read(records []chunk.Record, cut int) answer {
	const id = "msg-1"
	w := mastra.NewWriter(id)
	var a answer
	var body []byte
	respond := func(n int, broken bool) {
		a.bodies, a.broken, a.through = append(a.bodies, string(body)), append(a.broken, broken), append(a.through, n)
		body = nil
	}
	for i, rec := range records {
		if body == nil && i > 0 {
			w = mastra.NewWriter(id)
			for _, earlier := range records[:i] {
				w.Append(nil, earlier)
			}
			body = w.Resume(nil)
		}
		body = w.Append(body, rec)
		if w.Done() || i+1 == cut {
			a.cut = a.cut || !w.Done()
			respond(i+1, !w.Done())
		}
	}
	if len(body) > 0 {
		respond(len(records), true)
	}
	return a
}

// joined returns the responses in which the cut is invisible: the client appends the frames of both.
func (a answer) joined() (out answer) {
	out.cut = a.cut
	for i, body := range a.bodies {
		if i > 0 && a.broken[i-1] {
			last := len(out.bodies) - 1
			out.bodies[last] += body
			out.broken[last], out.through[last] = a.broken[i], a.through[i]
			continue
		}
		out.bodies, out.broken, out.through = append(out.bodies, body), append(out.broken, a.broken[i]), append(out.through, a.through[i])
	}
	return out
}

// chunksIn returns the chunks of a body.
func chunksIn(t *testing.T, body string) []json.RawMessage {
	t.Helper()
	chunks := []json.RawMessage{}
	for frame := range strings.SplitSeq(body, "\n\n") {
		if data, ok := strings.CutPrefix(frame, "data: "); ok && data != "[DONE]" {
			chunks = append(chunks, json.RawMessage(data))
		}
	}
	return chunks
}

type part = map[string]any

// snapshotOf returns the parts of the answer in the snapshot over the first n records, as the comparison needs them.
func snapshotOf(t *testing.T, records []chunk.Record, session chunk.Session) []part {
	t.Helper()
	folder := fold.New(session)
	for _, rec := range records {
		if rec.Session == session {
			if err := folder.Apply(rec); err != nil {
				t.Fatalf("%s: %v", rec.Data, err)
			}
		}
	}
	var parts []part
	for _, m := range aisdk.Snapshot(folder.Snapshot(), aisdk.SnapshotOptions{Partial: true}).Messages {
		if m.Role != fold.Assistant {
			continue
		}
		for _, raw := range m.Parts {
			var p part
			if err := json.Unmarshal(raw, &p); err != nil {
				t.Fatal(err)
			}
			parts = append(parts, p)
		}
	}
	return compared(parts)
}

// compared returns parts without what one of the two messages does not have, by its design:
//
//   - Boundaries of steps: the snapshot has none for a step without parts.
//   - The bounds of texts of one kind in succession, and whether they are complete.
//   - Data parts of Mastra itself and notices: the adapter drops the mark of throw-away data. Events of the application are compared.
//   - Who ran a tool, and the decision on an approval: Mastra has no place for them.
//   - The result of a call that the client ran itself: Mastra's servers do not send it.
//   - The name of a file.
func compared(parts []part) []part {
	var out []part
	for _, p := range parts {
		kind, _ := p["type"].(string)
		switch {
		case kind == "text" || kind == "reasoning":
			text, _ := p["text"].(string)
			if n := len(out); n > 0 && out[n-1]["type"] == kind {
				before, _ := out[n-1]["text"].(string)
				out[n-1]["text"] = before + text
			} else if text != "" {
				out = append(out, part{"type": kind, "text": text})
			}
		case kind == "dynamic-tool" || strings.HasPrefix(kind, "tool-"):
			out = append(out, tool(p))
		case kind == "file":
			out = append(out, part{"type": kind, "url": p["url"], "mediaType": p["mediaType"]})
		case strings.HasPrefix(kind, "source-"), isEvent(p):
			delete(p, "providerMetadata")
			out = append(out, p)
		}
	}
	return out
}

// isEvent reports whether p is an event of the application.
func isEvent(p part) bool { return p["type"] == "data-progress" || p["type"] == "data-note" }

// textsJoined returns compared parts with the texts of one kind joined also where only events of the application are between them. A client that reconnects in a
// text after such an event continues the text in a part behind the event; in the snapshot, the event is behind the whole text.
func textsJoined(parts []part) []part {
	var out []part
	for _, p := range parts {
		at := len(out) - 1
		for at > 0 && isEvent(out[at]) {
			at--
		}
		text, ok := p["text"].(string)
		if !ok || at < 0 || out[at]["type"] != p["type"] {
			out = append(out, p)
			continue
		}
		before, _ := out[at]["text"].(string)
		out[at] = part{"type": p["type"], "text": before + text}
	}
	return out
}

func tool(p part) part {
	name := p["toolName"]
	if name == nil {
		kind, _ := p["type"].(string)
		name = strings.TrimPrefix(kind, "tool-")
	}
	out := part{"type": "tool", "name": name, "id": p["toolCallId"], "state": p["state"], "input": p["input"], "output": p["output"]}
	if out["input"] == nil {
		out["input"] = part{}
	}
	if text, ok := p["errorText"].(string); ok {
		var failure struct {
			Message string `json:"message"`
		}
		if json.Unmarshal([]byte(text), &failure) == nil {
			text = failure.Message
		}
		out["error"] = text
	}
	if name == "page_where" {
		out["state"], out["output"] = "", nil
	}
	return out
}

// checkUI compares what the adapter and the AI SDK make of the responses with the snapshot at their end.
func checkUI(t *testing.T, name string, records []chunk.Record, a answer) {
	t.Helper()
	var responses [][]json.RawMessage
	for i, body := range a.bodies {
		responses = append(responses, chunksIn(t, body))
		if i+1 < len(a.bodies) && a.broken[i] {
			continue
		}
		v := ask(t, "ui", map[string]any{"responses": responses})
		got, want := compared(partsOf(v.Message)), snapshotOf(t, records[:a.through[i]], root)
		if a.cut {
			got, want = textsJoined(got), textsJoined(want)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%s, after %d records:\n got %s\nwant %s\n of %s", name, a.through[i], asJSON(got), asJSON(want), body)
		}
		for _, e := range v.Errors {
			if !strings.Contains(body, `"type":"error"`) {
				t.Fatalf("%s: %s in\n%s", name, e, body)
			}
		}
		if id := v.Message["id"]; len(want) > 0 && id != "msg-1" {
			t.Fatalf("%s: the message has the id %v", name, id)
		}
		checkAgents(t, name, records[:a.through[i]], v.Message)
	}
}

// checkAgents compares the text of each sub-agent in the message with that of its session.
func checkAgents(t *testing.T, name string, records []chunk.Record, message map[string]any) {
	t.Helper()
	texts := map[string]string{}
	for _, p := range partsOf(message) {
		if p["type"] == "data-tool-agent" {
			id, _ := p["id"].(string)
			data, _ := p["data"].(map[string]any)
			texts[id], _ = data["text"].(string)
		}
	}
	sessions := map[chunk.Session]bool{}
	for _, rec := range records {
		if rec.Session != root {
			sessions[rec.Session] = true
		}
	}
	for s := range sessions {
		want := ""
		for _, p := range snapshotOf(t, records, s) {
			if p["type"] == "text" {
				text, _ := p["text"].(string)
				want += text
			}
		}
		if got, ok := texts[s.ID]; !ok || got != want {
			t.Fatalf("%s: sub-agent %s says %q, want %q", name, s.ID, got, want)
		}
	}
}

func partsOf(message map[string]any) []part {
	var out []part
	list, _ := message["parts"].([]any)
	for _, p := range list {
		if p, ok := p.(map[string]any); ok {
			out = append(out, p)
		}
	}
	return out
}

func asJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// checkClient compares the message that the client assembles from the responses, as one body, with the snapshot.
func checkClient(t *testing.T, name string, records []chunk.Record, a answer) {
	t.Helper()
	body := strings.ReplaceAll(strings.Join(a.bodies, ""), doneFrame, "")
	v := ask(t, "message", map[string]any{"body": []byte(body + doneFrame)})
	want := map[string]string{}
	for _, p := range snapshotOf(t, records, root) {
		switch kind := p["type"]; kind {
		case "text", "reasoning":
			want[kind.(string)] += p["text"].(string)
		case "tool":
			id := "tool " + p["id"].(string)
			want[id] = asJSON([]any{p["name"], p["input"]})
			if p["state"] == "output-available" {
				want[id] += asJSON(p["output"])
			}
		}
	}
	got := map[string]string{}
	if text, _ := v.Message["content"].(string); text != "" {
		got["text"] = text
	}
	if text, ok := v.Message["reasoning"].(string); ok {
		got["reasoning"] = text
	}
	for _, p := range partsOf(v.Message) {
		c, ok := p["toolInvocation"].(map[string]any)
		if !ok {
			continue
		}
		id := fmt.Sprintf("tool %s", c["toolCallId"])
		got[id] = asJSON([]any{c["toolName"], c["args"]})
		if c["state"] == "result" {
			got[id] += asJSON(c["result"])
		}
	}
	if !maps.Equal(got, want) {
		t.Fatalf("%s:\n got %q\nwant %q\n of %s", name, got, want, body)
	}
	if id := v.Message["id"]; len(want) > 0 && hasStep(records) && id != "msg-1" {
		t.Fatalf("%s: the message has the id %v", name, id)
	}
}

// checkStream reads the responses with agent.stream: the application gets every chunk, and nothing fails in the client's own processing.
func checkStream(t *testing.T, name string, a answer) {
	t.Helper()
	for i, body := range a.bodies {
		v := ask(t, "stream", map[string]any{"bodies": [][]byte{[]byte(body)}})
		if got, want := asJSON(v.Chunks), asJSON(chunksIn(t, body)); !sameJSON(got, want) {
			t.Fatalf("%s: the application gets\n%s\nof\n%s", name, got, want)
		}
		if failed := strings.Contains(body, `"type":"error"`) || i > 0 && a.broken[i-1]; !failed && len(v.Logged) > 0 {
			t.Fatalf("%s: the client logs %q, in\n%s", name, v.Logged, body)
		}
	}
}

func sameJSON(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}

func hasStep(records []chunk.Record) bool {
	return slices.ContainsFunc(records, func(rec chunk.Record) bool { return rec.Session == root && rec.Type == chunk.TypeStepStart })
}

// hasError reports whether the log has an error that ends the processing of the client.
func hasError(records []chunk.Record) bool {
	return slices.ContainsFunc(records, func(rec chunk.Record) bool {
		return rec.Session == root && (rec.Type == chunk.TypeError && !bytes.Contains(rec.Data, []byte(`"recoverable":true`)) || rec.Type == chunk.TypeStreamFailed)
	})
}

// TestRecordedRuns reads the log of each run that was recorded from real agents of Mastra, cut at each record.
func TestRecordedRuns(t *testing.T) {
	for name, l := range recordings(t) {
		t.Run(name, func(t *testing.T) {
			if strings.HasPrefix(name, "workflow") {
				t.Parallel() // read by TestWorkflow
				return
			}
			whole := read(l.records, 0)
			checkStream(t, name, whole)
			for cut := range l.records {
				a := read(l.records, cut)
				checkUI(t, fmt.Sprintf("cut at %d", cut), l.records, a.joined())
				if !hasError(l.records) && name != "tripwire" && name != "abort-in-text" {
					checkClient(t, fmt.Sprintf("cut at %d", cut), l.records, a)
				}
			}
		})
	}
}

// TestGeneratedLogs reads generated logs, whole and cut at some record.
func TestGeneratedLogs(t *testing.T) {
	seed := seedtest.Seed(t)
	for n := range *logs {
		g := newGenerator(t, seed, uint64(n))
		g.turn()
		for _, cut := range []int{0, 1 + g.IntN(len(g.records)), 1 + g.IntN(len(g.records))} {
			name := fmt.Sprintf("-seed %d, log %d, cut at %d", seed, n, cut)
			a := read(g.records, cut)
			checkUI(t, name, g.records, a.joined())
			if cut == 0 {
				checkStream(t, name, a)
			}
			if !hasError(g.records) {
				checkClient(t, name, g.records, a)
			}
		}
	}
}
