package dialects_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/dialects"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
)

var responses = flag.Int("responses", 300, "number of strange responses of each dialect")

// stream is a response of an agent or a model: the data of its events.
type stream struct {
	name, dialect string
	events        []string
}

// streams returns the streams of testdata/streams.txt, of packages anthropic and langgraph, of the Agents SDK, and the recorded runs of Mastra.
func streams(tb testing.TB) (all []stream) {
	tb.Helper()
	var text []byte
	for _, name := range []string{"testdata/streams.txt", "../../codec/anthropic/testdata/streams.txt", "../../codec/langgraph/testdata/streams.txt", "../../codec/openai/testdata/agents.txt"} {
		file, err := os.ReadFile(name)
		if err != nil {
			tb.Fatal(err)
		}
		text = append(text, file...)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch name, isName := strings.CutPrefix(line, "# "); {
		case line == "" || line == "-" || strings.HasPrefix(line, "//"):
		case isName:
			kind, _, _ := strings.Cut(name, ":")
			all = append(all, stream{name: name, dialect: kind})
		default:
			all[len(all)-1].events = append(all[len(all)-1].events, line)
		}
	}
	runs, err := os.ReadFile("../../codec/mastra/testdata/mastra-runs.jsonl")
	if err != nil {
		tb.Fatal(err)
	}
	for line := range bytes.Lines(runs) {
		var run struct {
			Name   string            `json:"name"`
			Chunks []json.RawMessage `json:"chunks"`
		}
		if err := json.Unmarshal(line, &run); err != nil {
			tb.Fatal(err)
		}
		s := stream{name: "mastra: " + run.Name, dialect: dialect.Mastra}
		for _, c := range run.Chunks {
			s.events = append(s.events, string(c))
		}
		all = append(all, s)
	}
	return slices.DeleteFunc(all, func(s stream) bool { return !slices.Contains(ready, s.dialect) })
}

// ready are the dialects whose readers keep all that they read.
var ready = []string{dialect.AISDK, dialect.OpenAI, dialect.Mastra, dialect.AGUI, dialect.Kortyx, dialect.Anthropic, dialect.LangGraph}

// row is a row of the table of docs/reference/dialects.md of what is left out: members of the events whose type matches one of the patterns.
type row struct {
	dialect       string
	kinds, points []string
}

func leftOut(tb testing.TB) (rows []row) {
	tb.Helper()
	page, err := os.ReadFile("../../docs/reference/dialects.md")
	if err != nil {
		tb.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "\n### What is left out\n")
	if !found {
		tb.Fatal("docs/reference/dialects.md has no section about what is left out")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) < 5 || !strings.Contains(cells[1], "`") {
			continue
		}
		code := func(cell string) (list []string) {
			for i, part := range strings.Split(cell, "`") {
				if i%2 == 1 {
					list = append(list, part)
				}
			}
			return list
		}
		r := row{dialect: code(cells[1])[0], kinds: code(cells[2]), points: code(cells[3])}
		if r.kinds == nil {
			r.kinds = []string{"*"}
		}
		rows = append(rows, r)
	}
	if len(rows) == 0 {
		tb.Fatal("docs/reference/dialects.md lists nothing that is left out")
	}
	return rows
}

// covers reports whether a row has the member at a place of an event: its path, or one above it, or with "**." its name or one above it, at any depth.
func (r row) covers(dialect, kind string, place []string) bool {
	matches := func(pattern string) bool { ok, _ := path.Match(pattern, kind); return ok }
	if r.dialect != dialect || !slices.ContainsFunc(r.kinds, matches) {
		return false
	}
	for _, p := range r.points {
		if name, anywhere := strings.CutPrefix(p, "**."); anywhere && slices.Contains(place, name) {
			return true
		}
		if whole := strings.Join(place, "."); whole == p || strings.HasPrefix(whole, p+".") {
			return true
		}
	}
	return false
}

// text is a string in an event.
type text struct {
	event int
	kind  string   // of the event
	place []string // the names of the members around it
	value string
	set   func(v any)
}

// texts returns the strings of parsed events.
func texts(events []any) (all []text) {
	for i, e := range events {
		var walk func(kind string, v any, place []string, set func(any))
		walk = func(kind string, v any, place []string, set func(any)) {
			switch v := v.(type) {
			case string:
				if v != "" {
					all = append(all, text{i, kind, slices.Clone(place), v, set})
				}
			case []any:
				for j := range v {
					walk(kind, v[j], place, func(value any) { v[j] = value })
				}
			case map[string]any:
				inner, isChunk := v["type"].(string)
				if _, payload := v["payload"].(map[string]any); isChunk && (payload || len(place) == 0) {
					kind, place = inner, nil // a chunk of Mastra may be inside of another
					if subtype, ok := v["subtype"].(string); ok && inner == "system" {
						kind = subtype // a message of the Claude Agent SDK
					}
					if method, ok := v["method"].(string); ok && inner == "event" {
						kind = method // an event of LangGraph
					}
				}
				if within := kind + " " + strings.Join(place, "."); within == "raw_response_event data" || within == "raw_model_stream_event data.event" {
					kind, place = inner, nil // an event of the Agents SDK has one of an endpoint, which may have no type
				}
				for _, name := range slices.Sorted(maps.Keys(v)) {
					walk(kind, v[name], append(place, name), func(value any) { v[name] = value })
				}
			}
		}
		walk("", e, nil, nil)
	}
	return all
}

func parsed(tb testing.TB, events []string) (out []any) {
	tb.Helper()
	for _, e := range events {
		if e == "[DONE]" {
			continue // without it the end of the response has the same meaning
		}
		var v any
		d := json.NewDecoder(strings.NewReader(e))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			tb.Fatalf("%s: %v", e, err)
		}
		out = append(out, v)
	}
	return out
}

// output returns all that a reader made of a response, its texts and arguments without the borders between their pieces, and how many events it has read: one that
// is not valid is the last one.
func output(tb testing.TB, name string, events []any) (text string, read int) {
	tb.Helper()
	tr, ok := dialects.NewTranslator(name, codec.Run{Session: "s1", RunID: "run-1"})
	if !ok {
		tb.Fatalf("no translator for %q", name)
	}
	var all, joined strings.Builder
	write := func(chunks []chunk.Chunk) {
		for _, c := range chunks {
			line, err := c.AppendJSON(nil)
			if err != nil {
				tb.Fatalf("%+v: %v", c, err)
			}
			// Only the content: the head has the session.
			fmt.Fprintf(&all, "%s\n", line)
			switch b := c.Body.(type) {
			case chunk.TextDelta:
				joined.WriteString(b.Delta)
			case chunk.Thinking:
				joined.WriteString(b.Content)
			case chunk.ToolArgStreamDelta:
				joined.WriteString(b.Delta)
			}
		}
	}
	for _, e := range events {
		data, err := json.Marshal(e)
		if err != nil {
			tb.Fatal(err)
		}
		read++
		chunks, err := tr.Translate(data)
		if err != nil {
			fmt.Fprintf(&all, "%v: %s\n", err, data) // the caller fails the run with it
			break
		}
		write(chunks)
	}
	write(tr.End())
	return all.String() + joined.String(), read
}

// has reports whether a text is in an output: as it is, as the content of a JSON string, or as that of a JSON string in a string.
func has(output, value string) bool {
	if i := strings.LastIndex(value, "mark-x"); i > 0 { // the end of a text that was not streamed with the rest of it
		return has(output, value[:i]) && has(output, value[i:])
	}
	value = strings.TrimPrefix(value, "data-") // of the type of a part: the rest is the name of the event
	for range 3 {
		if strings.Contains(output, value) {
			return true
		}
		value = string(rawjson.AppendEscaped(nil, value))
	}
	return false
}

// check reports the strings with a mark that a reader has lost.
func check(tb testing.TB, rows []row, s stream, events []any) {
	tb.Helper()
	out, read := output(tb, s.dialect, events)
	events = events[:read]
	for _, x := range texts(events) {
		if !strings.Contains(x.value, "mark-") || has(out, x.value) {
			continue
		}
		if slices.ContainsFunc(rows, func(r row) bool { return r.covers(s.dialect, x.kind, x.place) }) {
			continue
		}
		var lines strings.Builder
		for _, e := range events {
			data, err := json.Marshal(e)
			fmt.Fprintln(&lines, string(data), err)
		}
		tb.Fatalf("%s: %q at %s is lost, and docs/reference/dialects.md does not say so. The events:\n%s\nWhat was written:\n%s", s.name, x.value, strings.Join(x.place, "."), &lines, out)
	}
}

// structural are the members whose values decide what an event is. A stream in which all other strings have a mark is still one of its kind.
var structural = []string{"type", "object", "finish_reason", "finishReason", "status", "role", "sourceType", "from", "workflowStatus", "reason", "op", "path", "kind", "mimeType", "mediaType", "activityType", "primitiveType", "state", "stop_reason", "subtype", "method", "event", "namespace"}

// mark gives every string that is not structural a mark of its own; equal strings have the same one, so that ids stay ids. JSON in strings stays JSON.
func mark(events []any) {
	known := map[string]string{}
	for _, x := range texts(events) {
		if slices.Contains(structural, x.place[len(x.place)-1]) || x.kind == "run_item_stream_event" && len(x.place) == 1 {
			continue
		}
		if known[x.value] == "" {
			m := "mark-" + strconv.Itoa(len(known)) + "-"
			known[x.value] = m + x.value
			if json.Valid([]byte(x.value)) && strings.HasPrefix(x.value, "{") {
				known[x.value] = `{"` + m + `":"` + m + `",` + x.value[1:]
			}
			if strings.Contains(x.value, ":") && !strings.HasPrefix(x.value, "{") {
				known[x.value] = x.value + m
			}
		}
		x.set(known[x.value])
	}
}

// TestKept gives each reader responses of its dialect. Each string is in a chunk, unless docs/reference/dialects.md lists it as left out.
func TestKept(t *testing.T) {
	rows := leftOut(t)
	for _, s := range streams(t) {
		t.Run(s.name, func(t *testing.T) {
			events := parsed(t, s.events)
			mark(events)
			check(t, rows, s, events)
		})
	}
}

// TestKeptOfStrangeStreams does so with responses that no description allows, which servers send all the same.
func TestKeptOfStrangeStreams(t *testing.T) {
	rows, all := leftOut(t), map[string][]stream{}
	for _, s := range streams(t) {
		if len(s.events) <= 60 {
			all[s.dialect] = append(all[s.dialect], s)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			r := seedtest.Rand(t)
			for range *responses {
				s := all[name][r.IntN(len(all[name]))]
				events := parsed(t, s.events)
				if r.IntN(2) == 0 {
					mark(events)
				}
				for range 1 + r.IntN(3) {
					events = change(r, events)
				}
				check(t, rows, s, events)
			}
		})
	}
}

// change changes events as a server might: a string is another value, an object has another member, an event is missing, comes twice, or comes too early.
func change(r *rand.Rand, events []any) []any {
	if len(events) == 0 {
		return events
	}
	m := "mark-x" + strconv.Itoa(r.IntN(1e6)) + "-"
	i := r.IntN(len(events))
	switch r.IntN(8) {
	case 0:
		return slices.Delete(events, i, i+1)
	case 1:
		return slices.Insert(events, i, events[i])
	case 2:
		j := r.IntN(len(events))
		events[i], events[j] = events[j], events[i]
		return events
	case 3, 4:
		var objects []map[string]any
		var walk func(v any)
		walk = func(v any) {
			switch v := v.(type) {
			case map[string]any:
				objects = append(objects, v)
				for _, name := range slices.Sorted(maps.Keys(v)) {
					walk(v[name])
				}
			case []any:
				for _, inner := range v {
					walk(inner)
				}
			}
		}
		walk(events[i])
		if len(objects) > 0 {
			objects[r.IntN(len(objects))]["another_member"] = []any{m, map[string]any{"text": m}}[r.IntN(2)]
		}
		return events
	}
	list := texts(events)
	if len(list) == 0 {
		return events
	}
	x := list[r.IntN(len(list))]
	if x.set == nil {
		return events
	}
	x.set([]any{
		m, x.value + m,
		[]any{map[string]any{"type": "text", "text": m}},
		[]any{m},
		map[string]any{"type": "text", "text": m},
		map[string]any{"value": m},
	}[r.IntN(6)])
	return events
}
