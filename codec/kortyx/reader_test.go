package kortyx

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/structured"
)

// readStream reads a body as Kortyx's client does: it returns the chunks that the client gets and whether it saw [DONE].
func readStream(reads ...string) (chunks []string, done bool) {
	buffer := ""
	for i, read := range reads {
		if i == 0 {
			read = strings.TrimPrefix(read, "\ufeff") // the decoder does
		}
		parts := strings.Split(buffer+read, "\n\n")
		buffer = parts[len(parts)-1]
		for _, part := range parts[:len(parts)-1] {
			payload, ok := strings.CutPrefix(part, "data: ")
			switch {
			case !ok:
			case strings.TrimSpace(payload) == "[DONE]":
				return chunks, true
			case json.Valid([]byte(payload)):
				chunks = append(chunks, payload)
			}
		}
	}
	return chunks, false
}

// The reader of these tests delivers what the recorded one does.
func TestReaderIsTheRecordedOne(t *testing.T) {
	file, err := os.Open("testdata/sse-cases.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	n := 0
	for lines := bufio.NewScanner(file); lines.Scan(); n++ {
		var c struct {
			Name   string   `json:"name"`
			Reads  []string `json:"reads"`
			Expect struct {
				Kortyx struct {
					Got []any `json:"got"`
				} `json:"kortyx"`
			} `json:"expect"`
		}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		t.Run(c.Name, func(t *testing.T) {
			for i, read := range c.Reads {
				if text, ok := strings.CutPrefix(read, "base64:"); ok {
					raw, err := base64.StdEncoding.DecodeString(text)
					if err != nil {
						t.Fatal(err)
					}
					c.Reads[i] = string(raw)
				}
			}
			chunks, _ := readStream(c.Reads...)
			got := make([]any, len(chunks))
			for i, text := range chunks {
				if err := json.Unmarshal([]byte(text), &got[i]); err != nil {
					t.Fatal(err)
				}
			}
			if !reflect.DeepEqual(got, slices.Clip(c.Expect.Kortyx.Got)) && len(got)+len(c.Expect.Kortyx.Got) > 0 {
				t.Errorf("got %v, want %v", got, c.Expect.Kortyx.Got)
			}
		})
	}
	if n < 20 {
		t.Errorf("%d cases, want them all", n)
	}
}

// client is what Kortyx's client makes of a response.
type client struct {
	chunks  []*dialect.Object
	streams map[string]*structured.Stream
	order   []string
}

// follow reads a body. It fails the test for a chunk that is not in the schema and for one at which the client stops.
func (c *client) follow(tb failer, body string) {
	tb.Helper()
	chunks, done := readStream(body)
	if strings.Contains(body, "[DONE]") && !done {
		tb.Fatalf("[DONE] was not seen")
	}
	for i, text := range chunks {
		m := dialect.Read([]byte(text))
		checkSchema(tb, m, text)
		c.chunks = append(c.chunks, m)
		switch kind := m.Or("type", ""); kind {
		case "session":
			if i != 0 {
				tb.Fatalf("session is chunk %d of a response", i)
			}
		case "done":
			if i != len(chunks)-1 || !done {
				tb.Fatalf("done is chunk %d of %d", i, len(chunks))
			}
		case structuredData:
			id := m.Or("streamId", "")
			if reserved[id] {
				tb.Fatalf("stream %s: Kortyx's reducer fails", id)
			}
			if c.streams == nil {
				c.streams = make(map[string]*structured.Stream)
			}
			if c.streams[id] == nil {
				c.streams[id] = new(structured.Stream)
				c.order = append(c.order, id)
			}
			if err := c.streams[id].Apply([]byte(text)); err != nil {
				tb.Fatalf("%s: %v", text, err)
			}
		}
	}
	if done && chunks[len(chunks)-1] != `{"type":"done"}` {
		tb.Fatalf("[DONE] follows %s", chunks[len(chunks)-1])
	}
}

// failer is a test, or one run of a property.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// schema has the members of the chunks of Kortyx: those that are required, and their kinds: s is a string, o an object, n a number, b a boolean, * any.
var schema = map[string]string{
	"session":                     "sessionId:s!",
	"checkpoint":                  "id:s! sessionId:s! turnIndex:n! label:s",
	"structured-data-invalidated": "streamId:s! checkpointId:s!",
	"status":                      "message:s! node:s",
	"text-start":                  "node:s id:s opId:s segmentId:s",
	"text-delta":                  "delta:s! node:s id:s opId:s segmentId:s",
	"text-end":                    "node:s id:s opId:s segmentId:s",
	"tool-result":                 "tool:s node:s content:*!",
	"tool-call-start":             "tool:s! toolCallId:s! node:s id:s opId:s input:*",
	"tool-call-result":            "tool:s! toolCallId:s! node:s id:s opId:s content:*! structuredContent:* isError:b",
	"tool-call-error":             "tool:s! toolCallId:s! node:s id:s opId:s message:s!",
	"interrupt":                   "requestId:s! resumeToken:s! workflow:s node:s id:s opId:s schemaId:s schemaVersion:s input:o! meta:o",
	"structured-data":             "streamId:s! dataType:s! kind:s! path:s value:* items:* delta:s data:* schemaId:s schemaVersion:s id:s node:s",
	"transition":                  "transitionTo:s! payload:*",
	"done":                        "",
	"error":                       "message:s!",
}

func checkSchema(tb failer, m *dialect.Object, text string) {
	tb.Helper()
	fields, ok := schema[m.Or("type", "")]
	if !ok {
		tb.Fatalf("unknown type: %s", text)
	}
	left := -1 // the type
	for range rawjson.Members(m.All()) {
		left++
	}
	for field := range strings.FieldsSeq(fields) {
		name, kind, _ := strings.Cut(field, ":")
		required := strings.HasSuffix(kind, "!")
		v := m.Peek(name)
		if v == nil {
			if required {
				tb.Fatalf("no %s: %s", name, text)
			}
			continue
		}
		left--
		if c := rawjson.Kind(v); kind[0] == 's' && c != '"' || kind[0] == 'o' && c != '{' || kind[0] == 'b' && c != 't' && c != 'f' || kind[0] == 'n' && (c < '0' || c > '9') {
			tb.Fatalf("%s is %s: %s", name, v, text)
		}
	}
	if left != 0 && m.Or("type", "") != structuredData {
		tb.Fatalf("members that the dialect does not have: %s", text)
	}
}

// checkFrames checks the framing of the frames of one record: each is one data line or one id line, the id is last, and only [DONE] follows it. The end of a
// response that another turn ends has no id.
func checkFrames(tb failer, frames string) {
	tb.Helper()
	if frames == "" {
		return
	}
	body, ok := strings.CutSuffix(frames, "\n\n")
	if !ok || strings.Contains(frames, "\r") || strings.Contains(frames, "\n\n\n") {
		tb.Fatalf("broken frames: %q", frames)
	}
	list := strings.Split(body, "\n\n")
	withID := true
	if list[len(list)-1] == "data: [DONE]" {
		list = list[:len(list)-1]
		withID = strings.Contains(frames, "\n\nid: ")
	}
	for i, frame := range list {
		isID := strings.HasPrefix(frame, "id: ")
		if strings.Contains(frame, "\n") || isID != (withID && i == len(list)-1) || !isID && !strings.HasPrefix(frame, "data: {") {
			tb.Fatalf("frame %d of %q", i, frames)
		}
	}
}

// Of the recorded chunks the writer writes those that the original applied, and none at which it stops.
func TestWriterKeepsTheOriginalRunning(t *testing.T) {
	file, err := os.Open("../../internal/structured/testdata/reducer-cases.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	written, left := 0, 0
	for lines.Scan() {
		var c struct {
			Name   string            `json:"name"`
			Mode   string            `json:"mode"`
			Chunks []json.RawMessage `json:"chunks"`
			Expect []struct {
				Error string `json:"error"`
			} `json:"expect"`
		}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		if c.Mode == "single" {
			continue // one state for chunks of several streams, which no reader of a stream has
		}
		bodies := make([]chunk.Body, len(c.Chunks))
		for i, raw := range c.Chunks {
			bodies[i] = chunk.Custom{EventName: "structured-data", Data: chunk.Value(raw)}
		}
		same := true // the original applied what was written so far, and nothing else
		for i, frames := range write(turnOf(t, bodies...))[1:] {
			applied := c.Expect[i].Error == ""
			switch shown := strings.Contains(frames, `"type":"structured-data"`); {
			case !same:
			case shown && !applied:
				t.Errorf("%s: chunk %d stops the client: %s", c.Name, i, c.Expect[i].Error)
			case shown:
				written++
			case applied:
				same = false
				left++
			}
		}
	}
	if err := lines.Err(); err != nil || written < 500 {
		t.Errorf("%d chunks were written, %v", written, err)
	}
	t.Logf("%d chunks were written; of %d cases the writer left out a chunk that the original applies", written, left)
}
