package openai

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/testkit/dialecttest"
	"github.com/tailrace/tailrace/projector/fold"
)

var suite = dialecttest.Suite{New: func() codec.Translator { return New(dialecttest.Run) }, Files: []string{"testdata/streams.txt", "testdata/agents.txt"}}

// TestStreams compares the chunks for each event of streams of both APIs, and of compatible servers, with the golden file.
func TestStreams(t *testing.T) { suite.Golden(t, "testdata/chunks.txt", "SECRET") }

// TestOutcomes checks what each stream leaves in a snapshot: the status, the answer and the calls that wait for a client.
func TestOutcomes(t *testing.T) {
	_, lines := suite.Streams(t)
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
		s := dialecttest.Fold(t, suite.Translate(t, lines[name]))["s1"]
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
