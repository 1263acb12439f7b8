package openai

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/projector/fold"
)

var (
	update                    = flag.Bool("update", false, "rewrite the golden file")
	_      dialect.Translator = (*Translator)(nil)
	root                      = chunk.RootSession("acme", "s1")
)

// streams returns the streams of testdata/streams.txt and agents.txt by name, in their order: the events of one or more responses, "-" at the end of each.
func streams(tb testing.TB) (names []string, lines map[string][]string) {
	tb.Helper()
	var file []byte
	for _, name := range []string{"streams.txt", "agents.txt"} {
		text, err := os.ReadFile("testdata/" + name)
		if err != nil {
			tb.Fatal(err)
		}
		file = append(file, text...)
	}
	lines = map[string][]string{}
	name := ""
	for line := range strings.Lines(string(file)) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case line == "" || strings.HasPrefix(line, "//"):
		case strings.HasPrefix(line, "# "):
			name = line[2:]
			names = append(names, name)
		default:
			lines[name] = append(lines[name], line)
		}
	}
	return names, lines
}

// translate translates lines, "-" is the end of a response, and checks each chunk.
func translate(tb testing.TB, lines []string) [][]chunk.Chunk {
	tb.Helper()
	tr := New(Config{Session: "s1", AgentType: "clerk", RunID: "run-1"})
	var all [][]chunk.Chunk
	for _, line := range lines {
		if line == "-" {
			all = append(all, tr.End())
			continue
		}
		chunks, err := tr.Translate([]byte(line))
		if err != nil {
			tb.Fatalf("%s: %v", line, err)
		}
		all = append(all, chunks)
	}
	for _, chunks := range all {
		for _, c := range chunks {
			spell(tb, c)
		}
	}
	return all
}

func spell(tb testing.TB, c chunk.Chunk) string {
	tb.Helper()
	line, err := c.AppendJSON(nil)
	if err == nil {
		_, err = chunk.Decode(line)
	}
	if err != nil {
		tb.Fatalf("%+v: %v", c, err)
	}
	return string(line)
}

// folded returns the snapshot of a log with the chunks, and fails the test if a chunk is a fault.
func folded(tb testing.TB, steps [][]chunk.Chunk) fold.Snapshot {
	tb.Helper()
	f := fold.New(root)
	seq := chunk.Seq(0)
	apply := func(c chunk.Chunk) {
		seq++
		rec := chunk.Record{Seq: seq, Session: root, Epoch: 1, Ordinal: chunk.Ordinal(seq), Type: c.Type(), Data: []byte(spell(tb, c))}
		if err := f.Apply(rec); err != nil {
			tb.Fatalf("%s: %v", rec.Data, err)
		}
	}
	apply(chunk.Chunk{AgentID: root.ID, AgentType: "clerk", Body: chunk.RunStarted{
		RunID: "run-1", Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: "question"}},
	}})
	for _, chunks := range steps {
		for _, c := range chunks {
			apply(c)
		}
	}
	s := f.Snapshot()
	if faults := s.Faults; faults.Skipped+faults.RejectedPatches+faults.RejectedPieces+faults.Lost > 0 {
		tb.Fatalf("faults: %+v", faults)
	}
	return s
}

// TestStreams compares the chunks for each event of streams of both APIs, and of compatible servers, with the golden file.
func TestStreams(t *testing.T) {
	const golden = "testdata/chunks.txt"
	names, lines := streams(t)
	var got bytes.Buffer
	fmt.Fprintln(&got, "Each event of streams.txt and agents.txt, and what it becomes. Written by go test -update.")
	for _, name := range names {
		fmt.Fprintf(&got, "\n# %s\n", name)
		for i, chunks := range translate(t, lines[name]) {
			fmt.Fprintf(&got, "%.100s\n", lines[name][i])
			for _, c := range chunks {
				_, members, _ := strings.Cut(spell(t, c), `"timestamp":0,`)
				fmt.Fprintf(&got, "  %s {%s\n", c.Type(), members)
			}
		}
	}
	if strings.Contains(got.String(), "SECRET") && strings.Contains(chunksOf(got.String()), "SECRET") {
		t.Error("a secret got through")
	}
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%s differs; look at the difference after -update. Now:\n%s", golden, got.Bytes())
	}
}

// chunksOf returns the lines of the golden file with chunks.
func chunksOf(golden string) string {
	var out strings.Builder
	for line := range strings.Lines(golden) {
		if strings.HasPrefix(line, "  ") {
			out.WriteString(line)
		}
	}
	return out.String()
}

// TestOutcomes checks what each stream leaves in a snapshot: the status, the answer and the calls that wait for a client.
func TestOutcomes(t *testing.T) {
	_, lines := streams(t)
	for name, want := range map[string]string{
		"chat: text":                                               "ended, hidden thoughts, Hello 😀!, data openai.rest, in 9 out 12",
		"chat: tools":                                              "paused, Looking., look_up {\"id\":\"1\"} input-available, now {} input-available, waits for c1 c2, in 20 out 8",
		"chat: tools, then the answer":                             "ended, look_up {\"id\":\"1\"} input-available, It is there., in 30 out 3",
		"chat: an agent's loop in one stream":                      "ended, look_up {\"id\":\"1\"} input-available, It is there., in 0 out 0",
		"chat: no finish reason":                                   "ended, Hi, in 0 out 0",
		"chat: cut":                                                "failed provider_unavailable, Hel, in 0 out 0",
		"chat: error":                                              "failed provider_overloaded, Hel, in 0 out 0",
		"chat: filtered":                                           "failed provider_content_filtered, in 0 out 0",
		"chat: invalid arguments":                                  "failed validation_error, look_up null output-error, in 0 out 0",
		"chat: cut by length":                                      "ended, Hello, in 0 out 0",
		"chat: search, images":                                     "ended, The news., source https://news.test/1, data openai.annotation, file image/png, in 0 out 0",
		"responses: text":                                          "ended, thinking, Hello, source https://e.test/, document notes.txt, data openai.rest, data openai.annotation, in 5 out 4",
		"responses: tools":                                         "paused, look_up {\"id\":\"1\"} input-available, shell {\"input\":\"ls\"} input-available, waits for call_1 call_2, in 7 out 3",
		"responses: server tools":                                  "ended, data openai.rest, search {\"q\":\"x\"} output-available, data openai.rest, search {\"q\":\"y\"} output-error, file image/webp, data openai.response.output_item.added, data openai.response.web_search_call.searching, data openai.response.output_item.done, data openai.response.output_item.done, in 0 out 0",
		"responses: incomplete":                                    "ended, Hel, in 1 out 2",
		"responses: failed":                                        "failed provider_unavailable, in 0 out 0",
		"responses: error":                                         "failed provider_rate_limited, in 0 out 0",
		"responses: a retry after a failed stream":                 "ended, Hello, in 0 out 0",
		"openai: Agents SDK, a scripted model, TypeScript":         "ended, Let me look., I should look.Raw thoughts., track {\"id\":7} output-available, It is in Oslo., in 20 out 10",
		"openai: Agents SDK, an approval, TypeScript":              "ended, Let me look., I should look.Raw thoughts., track {\"id\":7} output-available, It is in Oslo., in 20 out 10",
		"openai: Agents SDK, a handoff, TypeScript":                "ended, transfer_to_Billing {} output-available, data openai.handoff, Your bill is paid., in 20 out 10",
		"openai: Agents SDK, Responses, TypeScript":                "ended, I should look., Let me look., track {\"id\":7} output-available, It is in Oslo., in 20 out 10",
		"openai: Agents SDK, Responses with a handoff, TypeScript": "ended, transfer_to_Billing {} output-available, data openai.handoff, Paid., in 20 out 10",
		"openai: Agents SDK, chat completions, TypeScript":         "ended, I should look., Let me look., track {\"id\":7} output-available, It is in Oslo., in 30 out 9",
		"openai: Agents SDK, Python":                               "ended, track {\"id\":7} output-available, data openai.tool_progress_stream_event, It is in Oslo., in 30 out 9",
		"openai: Agents SDK, Python, a handoff, tools of the endpoint, approvals": "paused, data openai.response.output_item.done, web_search_call {} output-available, data openai.mcp_list_tools, order {\"sku\":\"a\"} output-denied, data openai.rest, transfer_to_billing {} output-available, data openai.handoff, data openai.tool_search_called, shell_call {\"action\":{\"commands\":[\"ls\"]}} approval-requested, data openai.rest, May I?, data openai.no_such_event, waits for s1, in 1 out 1",
		"no response": "failed provider_unavailable, in 0 out 0",
	} {
		s := folded(t, translate(t, lines[name]))
		got := outcome(s)
		if got != want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, want)
		}
		delete(lines, name)
	}
	for name := range lines {
		t.Errorf("%s: no outcome is compared", name)
	}
}

func outcome(s fold.Snapshot) string {
	out := []string{string(s.Status)}
	if s.Failure != nil {
		out[0] += " " + *s.Failure.Detail.Code
	}
	for _, m := range s.Messages(0) {
		if m.Role == fold.User {
			continue
		}
		for _, p := range m.Parts {
			switch p.Kind {
			case fold.PartText, fold.PartReasoning:
				out = append(out, p.Text)
			case fold.PartData:
				out = append(out, "data "+p.Data.Name)
			default:
				switch {
				case p.Call != nil:
					out = append(out, fmt.Sprintf("%s %s %s", p.Call.Name, p.Call.Input, p.Call.State))
				case p.File != nil:
					out = append(out, "file "+p.File.MediaType)
				case p.Source != nil && p.Source.URL != "":
					out = append(out, "source "+p.Source.URL)
				case p.Source != nil:
					out = append(out, "document "+p.Source.Title)
				}
			}
		}
	}
	var waits []string
	for _, p := range s.Pending {
		waits = append(waits, p.CallID)
	}
	if waits != nil {
		out = append(out, "waits for "+strings.Join(waits, " "))
	}
	return strings.Join(append(out, fmt.Sprintf("in %d out %d", s.Usage.Input, s.Usage.Output)), ", ")
}
