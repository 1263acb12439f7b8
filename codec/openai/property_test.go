package openai

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/testkit/dialecttest"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
)

// pieces returns text in pieces of random size as JSON strings, also cut within characters that are two UTF-16 units.
func pieces(r *rand.Rand, text string) (quoted []string) {
	units := utf16.Encode([]rune(text))
	for len(units) > 0 {
		n := 1 + r.IntN(len(units))
		q := []byte{'"'}
		for _, u := range units[:n] {
			q = fmt.Appendf(q, `\u%04x`, u)
		}
		quoted, units = append(quoted, string(append(q, '"'))), units[n:]
	}
	return quoted
}

const alphabet = "abc é\u4e16\U0001F600\n\"\\\u2028{}"

func randomText(r *rand.Rand) string {
	all := []rune(alphabet)
	out := make([]rune, r.IntN(20))
	for i := range out {
		out[i] = all[r.IntN(len(all))]
	}
	return string(out)
}

// answer is a response of a model.
type answer struct {
	reasoning, text string
	calls           []string // their arguments
}

func (a answer) chat(r *rand.Rand) (lines []string) {
	chunkOf := func(delta string) {
		lines = append(lines, `{"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":`+delta+`,"finish_reason":null}]}`)
	}
	for _, p := range pieces(r, a.reasoning) {
		chunkOf(`{"reasoning_content":` + p + `}`)
	}
	for _, p := range pieces(r, a.text) {
		chunkOf(`{"content":` + p + `}`)
	}
	for i := range a.calls {
		chunkOf(fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":"c%d","function":{"name":"tool","arguments":""}}]}`, i, i))
	}
	for _, p := range interleave(r, a.calls) {
		chunkOf(fmt.Sprintf(`{"tool_calls":[{"index":%d,"function":{"arguments":%s}}]}`, p.index, p.piece))
	}
	return append(lines, `{"id":"1","choices":[{"index":0,"delta":{},"finish_reason":"`+map[bool]string{true: "stop", false: "tool_calls"}[a.calls == nil]+`"}]}`, "[DONE]", "-")
}

func (a answer) responses(r *rand.Rand) []string {
	lines := []string{`{"type":"response.created","response":{"id":"r"}}`}
	for _, p := range pieces(r, a.reasoning) {
		lines = append(lines, `{"type":"response.reasoning_text.delta","output_index":0,"delta":`+p+`}`)
	}
	for _, p := range pieces(r, a.text) {
		lines = append(lines, `{"type":"response.output_text.delta","output_index":1,"delta":`+p+`}`)
	}
	item := func(i int, args string) string {
		q, _ := rawjson.AppendQuotedChunk(nil, args)
		return fmt.Sprintf(`"output_index":%d,"item":{"type":"function_call","call_id":"c%d","name":"tool","arguments":%s}}`, i+2, i, q)
	}
	for i := range a.calls {
		lines = append(lines, `{"type":"response.output_item.added",`+item(i, ""))
	}
	for _, p := range interleave(r, a.calls) {
		if r.IntN(8) > 0 { // a missing piece is in the complete item
			lines = append(lines, fmt.Sprintf(`{"type":"response.function_call_arguments.delta","output_index":%d,"delta":%s}`, p.index+2, p.piece))
		}
	}
	for i, args := range a.calls {
		lines = append(lines, `{"type":"response.output_item.done",`+item(i, args))
	}
	return append(lines, `{"type":"response.completed","response":{"id":"r","status":"completed"}}`, "-")
}

// sdk returns lines as the Agents SDK for TypeScript yields them: with an event of its own for each piece of text and for both ends of a response, before the event of the
// endpoint, or behind it; then with an item for each part. isPython: as that for Python does.
func (a answer) sdk(r *rand.Rand, lines []string, isPython bool) (out []string) {
	if isPython {
		for _, line := range lines[:len(lines)-1] {
			out = append(out, `{"type":"raw_response_event","data":`+line+`}`)
		}
		return append(out, a.items(r, "raw_item", "call_id")...)
	}
	out = append(out, `{"type":"raw_model_stream_event","data":{"type":"response_started"}}`)
	isBefore := r.IntN(2) == 0
	for _, line := range lines {
		raw, own := `{"type":"raw_model_stream_event","data":{"type":"model","event":`+line+`}}`, ""
		delta := rawjson.Get([]byte(line), "delta")
		if delta == nil {
			for choice := range rawjson.Elements(rawjson.Get([]byte(line), "choices")) {
				delta = rawjson.Get(choice, "delta", "content")
			}
		} else if !strings.Contains(line, "output_text.delta") {
			delta = nil
		}
		switch {
		case line == "-" || line == "[DONE]":
			continue
		case delta != nil:
			own = `{"type":"raw_model_stream_event","data":{"type":"output_text_delta","delta":` + string(delta) + `}}`
		case strings.Contains(line, "response.completed"), strings.Contains(line, "finish_reason\":\"s"), strings.Contains(line, "finish_reason\":\"t"):
			own = `{"type":"raw_model_stream_event","data":{"type":"response_done","response":{"id":"r","usage":{},"output":[{"type":"message","content":[]}]}}}`
		}
		both := []string{raw, own}
		if isBefore {
			both = []string{own, raw}
		}
		out = append(out, slices.DeleteFunc(both, func(s string) bool { return s == "" })...)
	}
	return append(out, a.items(r, "rawItem", "callId")...)
}

// items returns the items of an answer. Each call has an outcome.
func (a answer) items(r *rand.Rand, raw, id string) (lines []string) {
	add := func(name, item string) {
		lines = append(lines, fmt.Sprintf(`{"type":"run_item_stream_event","name":%q,"item":{%q:%s}}`, name, raw, item))
	}
	quoted := func(s string) string { q, _ := rawjson.AppendQuotedChunk(nil, s); return string(q) }
	if a.text != "" {
		add("message_output_created", `{"type":"message","content":[{"type":"output_text","text":`+quoted(a.text)+`}]}`)
	}
	for i, args := range a.calls {
		add("tool_called", fmt.Sprintf(`{"type":"function_call",%q:"c%d","name":"tool","arguments":%s}`, id, i, quoted(args)))
	}
	for _, i := range r.Perm(len(a.calls)) {
		add("tool_output", fmt.Sprintf(`{"type":"function_call_output",%q:"c%d","output":"done"}`, id, i))
	}
	return append(lines, "-")
}

type piece struct {
	index int
	piece string
}

// interleave returns the pieces of several texts in a random order that keeps each text's own.
func interleave(r *rand.Rand, texts []string) (all []piece) {
	rest := make([][]string, len(texts))
	var order []int
	for i, text := range texts {
		rest[i] = pieces(r, text)
		for range rest[i] {
			order = append(order, i)
		}
	}
	r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	for _, i := range order {
		all = append(all, piece{i, rest[i][0]})
		rest[i] = rest[i][1:]
	}
	return all
}

// TestAnySplit checks that the snapshot has the text, the reasoning and the arguments of the model, wherever the server has cut them, in both APIs.
func TestAnySplit(t *testing.T) {
	r := seedtest.Rand(t)
	for range 800 {
		a := answer{reasoning: randomText(r), text: randomText(r)}
		var want []string
		for _, s := range []string{a.reasoning, a.text} {
			if s != "" {
				want = append(want, s)
			}
		}
		status := "ended"
		for range r.IntN(4) {
			q, _ := rawjson.AppendQuotedChunk(nil, randomText(r))
			args := fmt.Sprintf(`{"q":%s}`, q)
			a.calls = append(a.calls, args)
			want = append(want, "tool "+args+" input-available")
			status = "paused"
		}
		chat, responses := a.chat(r), a.responses(r)
		for name, lines := range map[string][]string{
			"chat": chat, "responses": responses,
			"Agents SDK for Python": a.sdk(r, responses, true), "Agents SDK for TypeScript": a.sdk(r, responses, false), "Agents SDK with chat completions": a.sdk(r, chat, false),
		} {
			want, status := slices.Clone(want), status
			if strings.HasPrefix(name, "Agents") {
				status = "ended"
				for i := range want {
					want[i] = strings.Replace(want[i], "} input-available", "} output-available", 1)
				}
			}
			got := outcome(dialecttest.Fold(t, suite.Translate(t, lines))["s1"])
			got, _, _ = strings.Cut(got, ", waits for")
			got = sorted(strings.TrimSuffix(got, ", in 0 out 0"))
			if w := sorted(strings.Join(append([]string{status}, want...), ", ")); got != w {
				t.Fatalf("%s:\n got %q\nwant %q\n%s", name, got, w, strings.Join(lines, "\n"))
			}
		}
	}
}

// sorted returns an outcome with its calls sorted: they are in the order of their first piece.
func sorted(outcome string) string {
	list := strings.Split(outcome, ", tool ")
	slices.Sort(list[1:])
	return strings.Join(list, ", tool ")
}

// TestMalformed checks that data which is not an event changes nothing.
func TestMalformed(t *testing.T) {
	tr := New(codec.Run{Session: "s1"})
	for _, data := range []string{"", " ", "x", "[1]", `"x"`, `{"a":1`, `{"a":1} {}`, "[don't]", "null", "\xff"} {
		chunks, err := tr.Translate([]byte(data))
		if chunks != nil || !errors.Is(err, chunk.ErrInvalid) {
			t.Errorf("%q: %v, %v", data, chunks, err)
		}
	}
	chunks, err := tr.Translate([]byte(`{"choices":[{"delta":{"content":"a"}}]}`))
	if err != nil || len(chunks) != 2 || chunks[0].Step != 1 {
		t.Errorf("%v, %v; want a step_start of step 1 and a text_delta", chunks, err)
	}
}

// TestLimits checks that arguments without end, deep events and large final events cost no more than their size.
func TestLimits(t *testing.T) {
	call := `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"tool","arguments":"` + strings.Repeat("x", 64<<10) + `"}}]}}]}`
	lines := slices.Repeat([]string{call}, 20)
	lines = append(lines, `{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`, "-")
	size := 0
	for _, chunks := range suite.Translate(t, lines) {
		for _, c := range chunks {
			size += len(dialecttest.Spell(t, c))
		}
	}
	if size > 400<<10 {
		t.Errorf("%d bytes of arguments are kept, want at most the limit", size)
	}
	deep := `{"type":"x","a":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "}"
	want := `custom:openai.x:null`
	got := ""
	for _, chunks := range suite.Translate(t, []string{deep}) {
		for _, c := range chunks {
			if b, ok := chunk.As[chunk.Custom](c); ok {
				got += fmt.Sprintf("custom:%s:%s", b.EventName, b.Data)
			}
		}
	}
	if got != want {
		t.Errorf("a deep event: %s, want %s", got, want)
	}
	last := `{"type":"response.completed","response":{"output":[` + strings.Repeat("1,", 100_000) + `1],"usage":{"input_tokens":3,"output_tokens":4}}}`
	s := dialecttest.Fold(t, suite.Translate(t, []string{`{"type":"response.output_text.delta","delta":"a"}`, last, "-"}))["s1"]
	if s.Usage.Input != 3 || s.Status != "ended" {
		t.Errorf("a large final event: %+v, %s", s.Usage, s.Status)
	}
}

// FuzzTranslate checks that the chunks are those of a log for any lines.
func FuzzTranslate(f *testing.F) { suite.Fuzz(f) }

// BenchmarkTranslate translates a piece of text of each API.
func BenchmarkTranslate(b *testing.B) {
	for name, line := range map[string]string{
		"chat":      `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[{"index":0,"delta":{"content":"Hello "},"logprobs":null,"finish_reason":null}],"usage":null}`,
		"responses": `{"type":"response.output_text.delta","sequence_number":10,"item_id":"msg_1","output_index":1,"content_index":0,"delta":"Hello ","logprobs":[]}`,
	} {
		b.Run("api="+name, func(b *testing.B) {
			tr := New(codec.Run{Session: "s1"})
			b.ReportAllocs()
			for b.Loop() {
				if _, err := tr.Translate([]byte(line)); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "chunks/s")
		})
	}
}

// TestAnyOrder checks that the chunks are those of a log for the events of all streams in any order, some of them twice.
func TestAnyOrder(t *testing.T) { suite.AnyOrder(t) }
