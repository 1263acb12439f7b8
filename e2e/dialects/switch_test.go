//go:build e2e

package dialects

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/e2e/dialects/npm"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/dialects"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
	"github.com/tailrace/tailrace/internal/testkit/turntest"
	"github.com/tailrace/tailrace/projector/fold"
)

var logs = flag.Int("logs", 40, "number of random logs")

var (
	aguiClient    = npm.Program{Name: "agui", Script: "agui/client.mjs", Packages: "agui/packages"}
	aiClient      = npm.Program{Name: "ai-7", Script: "ai.mjs", Packages: "../aisdk/packages/7"}
	mastraClients = npm.Program{Name: "mastra", Script: "mastra/clients.mjs", Packages: "mastra/packages"}
)

// leg is what one client reads: it loads the snapshot over the first records of a log, and reads the further ones of the turn.
type leg struct {
	t    *testing.T
	name string
	log  turntest.Log
	turn turn

	from, to int // numbers of records
}

// turn is one turn of a log: the records from first to last-1, the id of the answer, and the state before.
type turn struct {
	id          string
	first, last int
	state       chunk.Value
}

func folded(t *testing.T, log turntest.Log) fold.Snapshot {
	t.Helper()
	folder := fold.New(turntest.Session)
	for _, rec := range log {
		err := folder.Apply(rec)
		if errors.Is(err, fold.ErrInvalidRecord) {
			err = folder.Skip(rec, err.Error())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return folder.Snapshot()
}

func turnsOf(t *testing.T, log turntest.Log) (all []turn) {
	t.Helper()
	var opener dialect.Turns
	for i := range log {
		if opens, _ := opener.Opens(&log[i]); !opens {
			continue
		}
		if len(all) > 0 {
			all[len(all)-1].last = i
		}
		state := chunk.Value("{}")
		if before := folded(t, log[:i]).State; before != nil {
			state = before
		}
		all = append(all, turn{id: fold.MessageID(folded(t, log[:i+1]).TurnMessages()), first: i, last: len(log), state: state})
	}
	return all
}

// responses returns the responses to the client of a dialect. Each is that of another edge, which reads the earlier records of the turn first.
func (l leg) responses(name string) (bodies []string) {
	var body []byte
	var w codec.Writer
	for i := l.from; i < l.to; i++ {
		if w == nil {
			w = dialects.NewWriter(name, dialects.Turn{
				Session: turntest.Session, MessageID: l.turn.id, State: l.turn.state, AISDK: aisdk.Options{Major: 7, ClientTool: turntest.IsClientTool},
			})
			for _, rec := range l.log[l.turn.first:i] {
				w.Append(nil, rec)
			}
			if i > l.turn.first {
				body = w.Resume(nil)
			}
		}
		frames := w.Append(nil, l.log[i])
		if body = append(body, frames...); len(frames) > 0 && w.Done() {
			bodies, body, w = append(bodies, string(body)), nil, nil
		}
	}
	if len(body) > 0 {
		bodies = append(bodies, string(body))
	}
	return bodies
}

func (l leg) fatalf(format string, args ...any) {
	l.t.Helper()
	l.t.Fatalf("%s, records %d to %d: %s\n%s", l.name, l.from, l.to, fmt.Sprintf(format, args...), l.log[:l.to])
}

// readAGUI: @ag-ui/client accepts all events, and has the messages and the state of the snapshot.
func (l leg) readAGUI() {
	l.t.Helper()
	type page struct {
		Messages []map[string]any `json:"messages"`
		State    any              `json:"state"`
	}
	pageOf := func(n int) (p page) {
		if err := json.Unmarshal(dialects.AppendSnapshot(dialect.AGUI, nil, folded(l.t, l.log[:n]).Content(true)), &p); err != nil {
			l.t.Fatal(err)
		}
		return p
	}
	calls := []map[string]any{}
	for _, body := range l.responses(dialect.AGUI) {
		calls = append(calls, map[string]any{"body": body, "clear": true})
	}
	var got struct {
		page

		Error string `json:"error"`
		Calls []struct {
			Error *string `json:"error"`
		} `json:"calls"`
	}
	from := pageOf(l.from)
	aguiClient.Ask(l.t, map[string]any{"messages": from.Messages, "state": from.State, "calls": calls}, &got)
	for _, c := range got.Calls {
		if c.Error != nil {
			l.fatalf("%s", *c.Error)
		}
	}
	want := pageOf(l.to)
	if a, b := npm.AGUIMessages(got.Messages), npm.AGUIMessages(want.Messages); got.Error != "" || a != b {
		l.fatalf("%s\n got %s\nwant %s\n of %s", got.Error, a, b, calls)
	}
	if !reflect.DeepEqual(got.State, want.State) {
		l.fatalf("the state is %v, want %v", got.State, want.State)
	}
}

// message is a message of the AI SDK.
type message struct {
	ID    string           `json:"id"`
	Role  string           `json:"role"`
	Parts []map[string]any `json:"parts"`
}

// answer returns the answer of the turn in the snapshot over the first n records, nil if it has no parts.
func (l leg) answer(n int) *message {
	l.t.Helper()
	page, err := json.Marshal(aisdk.Snapshot(folded(l.t, l.log[:n]), aisdk.SnapshotOptions{Partial: true}))
	if err != nil {
		l.t.Fatal(err)
	}
	var v struct {
		Messages []*message `json:"messages"`
	}
	if err := json.Unmarshal(page, &v); err != nil {
		l.t.Fatal(err)
	}
	for _, m := range v.Messages {
		if m.ID == l.turn.id {
			return m
		}
	}
	return nil
}

// merged is a message as the comparison needs it. These are lost or different by design:
//
//   - Boundaries of steps, and of texts of one kind in succession: the rest of a text is another part, after the data, sources and files that are in the text.
//   - The arguments of a call that stream.
//   - Names of files, and data other than that of the application.
//   - With Mastra: the decision about an approval, the result of a call of the client, and the URL of a file: its adapter takes each for the data of the file.
func (m *message) merged(of string) (out []map[string]any) {
	if m == nil {
		return nil
	}
	for _, p := range m.Parts {
		kind, _ := p["type"].(string)
		switch {
		case kind == "text" || kind == "reasoning":
			text, _ := p["text"].(string)
			if last := lastBlock(out); last != nil && last["type"] == kind {
				last["text"] = fmt.Sprint(last["text"], text)
			} else if text != "" {
				out = append(out, map[string]any{"type": kind, "text": text})
			}
		case kind == "dynamic-tool" || strings.HasPrefix(kind, "tool-"):
			out = append(out, toolOf(p, of))
		case kind == "file":
			url, _ := p["url"].(string)
			if of == dialect.Mastra {
				url = strings.TrimPrefix(url, fmt.Sprintf("data:%s;base64,", p["mediaType"]))
			}
			out = append(out, map[string]any{"type": kind, "url": url, "mediaType": p["mediaType"]})
		case strings.HasPrefix(kind, "source-"), kind == "data-progress":
			out = append(out, p)
		}
	}
	return out
}

// lastBlock returns the last part that is not data, a source or a file: a text may continue after these.
func lastBlock(parts []map[string]any) map[string]any {
	for _, p := range slices.Backward(parts) {
		kind := fmt.Sprint(p["type"])
		if kind == "text" || kind == "reasoning" || kind == "tool" {
			return p
		}
	}
	return nil
}

func toolOf(p map[string]any, of string) map[string]any {
	name := p["toolName"]
	if name == nil {
		name = strings.TrimPrefix(fmt.Sprint(p["type"]), "tool-")
	}
	out := map[string]any{"type": "tool", "id": p["toolCallId"], "name": name, "state": p["state"], "input": p["input"], "output": p["output"], "error": p["errorText"]}
	if p["state"] == "input-streaming" || p["state"] == "output-error" {
		delete(out, "input")
	}
	if of != dialect.Mastra {
		return out
	}
	if text, ok := p["errorText"].(string); ok {
		var failure struct {
			Message string `json:"message"`
		}
		if json.Unmarshal([]byte(text), &failure) == nil {
			out["error"] = failure.Message
		}
	}
	if p["state"] == "approval-responded" {
		out["state"] = "approval-requested"
	}
	if name == "browser" {
		out["state"], out["output"] = "", nil
	}
	return out
}

func (l leg) compare(of string, got *message, errs []string, bodies any) {
	l.t.Helper()
	a, b := got.merged(of), l.answer(l.to).merged(of)
	if !reflect.DeepEqual(a, b) {
		l.fatalf("errors %q\n got %s\nwant %s\n of %s", errs, asJSON(a), asJSON(b), bodies)
	}
	for _, e := range errs {
		if !strings.Contains(fmt.Sprint(bodies), `"type":"error"`) {
			l.fatalf("%s in %s", e, bodies)
		}
	}
}

func asJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

type assembled struct {
	Message *message `json:"message"`
	Errors  []string `json:"errors"`
	Fault   string   `json:"fault"`
}

// readAISDK: ai has the answer of the snapshot.
func (l leg) readAISDK() {
	l.t.Helper()
	var got assembled
	bodies := l.responses(dialect.AISDK)
	if len(bodies) == 0 {
		return
	}
	aiClient.Ask(l.t, map[string]any{"message": l.answer(l.from), "responses": bodies}, &got)
	l.compare(dialect.AISDK, got.Message, got.Errors, bodies)
}

// readMastra: the adapter of Mastra's chunks and ai have the answer of the snapshot.
func (l leg) readMastra() {
	l.t.Helper()
	var got assembled
	bodies := l.responses(dialect.Mastra)
	if len(bodies) == 0 {
		return
	}
	request := map[string]any{"op": "ui"}
	if l.answer(l.from) != nil {
		var page struct {
			Messages []json.RawMessage `json:"messages"`
		}
		if err := json.Unmarshal(dialects.AppendSnapshot(dialect.Mastra, nil, folded(l.t, l.log[:l.from]).Content(true)), &page); err != nil {
			l.t.Fatal(err)
		}
		request["page"] = page.Messages
	}
	var responses [][]json.RawMessage
	for _, body := range bodies {
		responses = append(responses, dataOf(body))
	}
	request["responses"] = responses
	mastraClients.Ask(l.t, request, &got)
	if got.Fault != "" {
		l.fatalf("%s", got.Fault)
	}
	l.compare(dialect.Mastra, got.Message, got.Errors, bodies)
}

// dataOf returns the chunks of a body, as Kortyx's reader gets them: events that begin with "data: ", up to [DONE].
func dataOf(body string) []json.RawMessage {
	chunks := []json.RawMessage{}
	for frame := range strings.SplitSeq(body, "\n\n") {
		data, ok := strings.CutPrefix(frame, "data: ")
		if data == "[DONE]" {
			break
		}
		if ok {
			chunks = append(chunks, json.RawMessage(data))
		}
	}
	return chunks
}

// kortyxText is the text that Kortyx's reader, of which there is no package, makes of responses: one space is between two blocks unless one side has white space.
type kortyxText struct{ text, block string }

func (k *kortyxText) read(l leg, body string) {
	l.t.Helper()
	for i, raw := range dataOf(body) {
		var c struct {
			Type      string `json:"type"`
			Delta     string `json:"delta"`
			OpID      string `json:"opId"`
			SegmentID string `json:"segmentId"`
		}
		if err := json.Unmarshal(raw, &c); err != nil {
			l.t.Fatalf("%v in %s", err, raw)
		}
		if (c.Type == "session") != (i == 0) {
			l.fatalf("chunk %d of a response is %s", i, raw)
		}
		if c.Type != "text-delta" || c.Delta == "" {
			continue
		}
		if block := c.OpID + ":" + c.SegmentID; block != k.block {
			before, _ := utf8.DecodeLastRuneInString(k.text)
			after, _ := utf8.DecodeRuneInString(c.Delta)
			if k.text != "" && !unicode.IsSpace(before) && !unicode.IsSpace(after) {
				k.text += " "
			}
			k.block = block
		}
		k.text += c.Delta
	}
}

// readKortyx: the reader has the text of the answer in the snapshot. It knows which block is open, which the snapshot does not have.
func (l leg) readKortyx() {
	l.t.Helper()
	content := func(n int) string {
		var v struct {
			Messages []struct {
				ID      string `json:"id"`
				Content string `json:"content"`
			} `json:"messages"`
		}
		if err := json.Unmarshal(dialects.AppendSnapshot(dialect.Kortyx, nil, folded(l.t, l.log[:n]).Content(true)), &v); err != nil {
			l.t.Fatal(err)
		}
		for _, m := range v.Messages {
			if m.ID == l.turn.id {
				return m.Content
			}
		}
		return ""
	}
	var got kortyxText
	earlier := l
	earlier.from, earlier.to = l.turn.first, l.from
	for _, body := range earlier.responses(dialect.Kortyx) {
		got.read(earlier, body)
	}
	got.text = content(l.from)
	bodies := l.responses(dialect.Kortyx)
	for _, body := range bodies {
		got.read(l, body)
	}
	if want := content(l.to); got.text != want {
		l.fatalf(" got %q\nwant %q\n of %s", got.text, want, bodies)
	}
}

// TestClientsContinueEachOther begins the turns of random logs with a client, and continues them after random cuts with clients of random dialects. Each loads the
// snapshot in its dialect, and reads the events after it with the cursor. What it has at the next cut, or at the end, is the snapshot there.
func TestClientsContinueEachOther(t *testing.T) {
	seed := seedtest.Seed(t)
	gen := turntest.Logs(turntest.Config{Turns: 2, Plain: true})
	rnd := rand.New(rand.NewPCG(seed, 0))
	readers := map[string]func(leg){dialect.AGUI: leg.readAGUI, dialect.AISDK: leg.readAISDK, dialect.Mastra: leg.readMastra, dialect.Kortyx: leg.readKortyx}
	names := []string{dialect.AGUI, dialect.AISDK, dialect.Kortyx, dialect.Mastra}
	for n := range *logs {
		log := gen.Example(int(rnd.Int32()))
		for _, turn := range turnsOf(t, log) {
			read := []string{}
			for from := turn.first; from < turn.last; {
				to := from + 1 + rnd.IntN(turn.last-from)
				read = append(read, names[rnd.IntN(len(names))])
				last := read[len(read)-1]
				if kind := log[max(from, 1)-1].Type; last == dialect.Mastra && (kind == chunk.TypeToolArgStreamStart || kind == chunk.TypeToolArgStreamDelta) {
					last = dialect.AGUI // a client of Mastra cannot begin among arguments
				}
				readers[last](leg{t, fmt.Sprintf("-seed %d, log %d, %s", seed, n, slices.Clone(read)), log, turn, from, to})
				from = to
			}
		}
	}
}
