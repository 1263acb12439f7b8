package anthropic

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/testkit/dialecttest"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
)

// answer is a message of a model: texts, thoughts and calls in their order.
type answer []struct{ kind, text string }

func quoted(s string) string { return string(dialect.Quote(s)) }

func randomAnswer(r *rand.Rand) (a answer) {
	alphabet := []rune("abc é\u4e16\U0001F600\n\"\\\u2028{}1.50")
	for range r.IntN(5) {
		text := make([]rune, 1+r.IntN(20))
		for i := range text {
			text[i] = alphabet[r.IntN(len(alphabet))]
		}
		kind := []string{kindText, kindThinking, "tool_use"}[r.IntN(3)]
		s := string(text)
		if kind == "tool_use" {
			s = `{"q":` + quoted(s) + `,"n":1.50}`
		}
		a = append(a, struct{ kind, text string }{kind, s})
	}
	return a
}

func (a answer) block(i int, empty bool) string {
	text := a[i].text
	if a[i].kind == "tool_use" {
		if empty {
			text = "{}"
		}
		return fmt.Sprintf(`{"type":"tool_use","id":"c%d","name":"tool","input":%s}`, i, text)
	}
	if empty {
		text = ""
	}
	return fmt.Sprintf(`{"type":%q,%q:%s}`, a[i].kind, a[i].kind, quoted(text))
}

// events returns the events of the message, with each text in random pieces.
func (a answer) events(r *rand.Rand) []string {
	lines := []string{`{"type":"message_start","message":{"id":"m","model":"x","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}`}
	for i, b := range a {
		lines = append(lines, fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":%s}`, i, a.block(i, true)))
		member := map[string]string{kindText: "text", kindThinking: "thinking", "tool_use": "partial_json"}[b.kind]
		kind := map[string]string{kindText: "text_delta", kindThinking: "thinking_delta", "tool_use": "input_json_delta"}[b.kind]
		for rest := []rune(b.text); len(rest) > 0; {
			n := 1 + r.IntN(len(rest))
			lines = append(lines, fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{"type":%q,%q:%s}}`, i, kind, member, quoted(string(rest[:n]))))
			rest = rest[n:]
		}
		lines = append(lines, fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, i))
	}
	return append(lines, `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5}}`, `{"type":"message_stop"}`)
}

// messages returns the message as the SDK sends it: a block each, and before it a part of its events.
func (a answer) messages(r *rand.Rand) (lines []string) {
	events := a.events(r)
	if r.IntN(3) == 0 {
		events = nil
	}
	cut := r.IntN(len(events) + 1)
	for _, e := range events[:cut] {
		lines = append(lines, `{"type":"stream_event","parent_tool_use_id":null,"event":`+e+`}`)
	}
	for i := range a {
		lines = append(lines, fmt.Sprintf(`{"type":"assistant","parent_tool_use_id":null,"message":{"id":"m","content":[%s]}}`, a.block(i, false)))
	}
	return append(lines, `{"type":"result","subtype":"success"}`)
}

// content returns the texts, the thoughts and the arguments of calls that started.
func content(tb testing.TB, steps [][]chunk.Chunk) (text, thinking string, calls []string) {
	tb.Helper()
	for _, chunks := range steps {
		for _, c := range chunks {
			switch b := c.Body.(type) {
			case chunk.TextDelta:
				text += b.Delta
			case chunk.Thinking:
				thinking += b.Content
			case chunk.ToolStart:
				calls = append(calls, string(b.Arguments))
			}
		}
	}
	slices.Sort(calls)
	return text, thinking, calls
}

// TestAnySplit checks that the log has each text, thought and call once, wherever the endpoint has cut them, and wherever the events of the SDK end before its messages.
func TestAnySplit(t *testing.T) {
	r := seedtest.Rand(t)
	for range 400 {
		a := randomAnswer(r)
		var wantText, wantThinking string
		var wantCalls []string
		for _, b := range a {
			switch b.kind {
			case kindText:
				wantText += b.text
			case kindThinking:
				wantThinking += b.text
			default:
				wantCalls = append(wantCalls, b.text)
			}
		}
		slices.Sort(wantCalls)
		for name, lines := range map[string][]string{"events": a.events(r), "messages": a.messages(r)} {
			lines = append(lines, "-")
			steps := suite.Translate(t, lines)
			dialecttest.Fold(t, steps)
			text, thinking, calls := content(t, steps)
			if text != wantText || thinking != wantThinking || !slices.Equal(calls, wantCalls) {
				t.Fatalf("%s:\n%s\nhave %q %q %q\nwant %q %q %q", name, strings.Join(lines, "\n"), text, thinking, calls, wantText, wantThinking, wantCalls)
			}
		}
	}
}

// TestAnyOrder checks that the chunks are those of a log for the events of all streams in any order, some of them twice.
func TestAnyOrder(t *testing.T) { suite.AnyOrder(t) }

// FuzzTranslate checks that the chunks are those of a log for any lines.
func FuzzTranslate(f *testing.F) { suite.Fuzz(f) }

// TestLarge has texts and arguments of megabytes, more arguments than a call may have, and many blocks that never end.
func TestLarge(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	start := `{"type":"message_start","message":{"id":"m","content":[]}}`
	call := `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"c","name":"n","input":{}}}`
	piece := `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":` + quoted(long) + `}}`
	lines := []string{start, call, `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"a\":\""}}`, piece,
		`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"\"}"}}`, `{"type":"content_block_stop","index":0}`}
	if _, _, calls := content(t, suite.Translate(t, lines)); len(calls) != 1 || calls[0] != `{"a":"`+long+`"}` {
		t.Errorf("%d calls with arguments of a megabyte", len(calls))
	}
	lines = append([]string{start, call}, slices.Repeat([]string{piece}, 6)...)
	steps := suite.Translate(t, append(lines, `{"type":"content_block_stop","index":0}`))
	if last := steps[len(steps)-1]; len(last) != 2 || last[1].Type() != chunk.TypeToolInputError {
		t.Errorf("%d chunks end arguments of six megabytes", len(last))
	}
	many := []string{start}
	for i := range 20_000 {
		many = append(many, fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":{"type":"text","text":"a"}}`, i))
	}
	if text, _, _ := content(t, suite.Translate(t, append(many, "-"))); len(text) != 20_000 {
		t.Errorf("%d bytes of text of 20000 blocks", len(text))
	}
}
