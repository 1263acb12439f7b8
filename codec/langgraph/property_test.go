package langgraph

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
		kind, s := []string{kindText, kindReasoning, kindCall}[r.IntN(3)], string(text)
		if kind == kindCall {
			s = `{"q":` + quoted(s) + `,"n":1.50}`
		}
		a = append(a, struct{ kind, text string }{kind, s})
	}
	return a
}

// events returns the events of the message, with each text in random pieces. The ends of the blocks are behind each block, or behind all.
func (a answer) events(r *rand.Rand) (lines []string) {
	add := func(format string, of ...any) {
		lines = append(lines, fmt.Sprintf(`{"type":"event","method":"messages","params":{"namespace":["model:1"],"node":"model","data":`+format+`}}`, of...))
	}
	add(`{"event":"message-start","id":"m"}`)
	late := r.IntN(2) == 0
	end := func(i int) {
		switch b := a[i]; b.kind {
		case kindCall:
			add(`{"event":"content-block-finish","index":%d,"content":{"type":"tool_call","id":"c%d","name":"tool","args":%s}}`, i, i, b.text)
		default:
			add(`{"event":"content-block-finish","index":%d,"content":{"type":%q,%q:%s}}`, i, b.kind, b.kind, quoted(b.text))
		}
	}
	for i, b := range a {
		begun := ""
		for rest := []rune(b.text); len(rest) > 0 && (late || r.IntN(6) > 0); { // the end may have what no piece had
			n := 1 + r.IntN(len(rest))
			piece, isFirst := string(rest[:n]), begun == ""
			rest, begun = rest[n:], begun+string(rest[:n])
			switch {
			case b.kind == kindCall && isFirst:
				add(`{"event":"content-block-start","index":%d,"content":{"type":"tool_call_chunk","id":"c%d","name":"tool","args":%s}}`, i, i, quoted(piece))
			case b.kind == kindCall && r.IntN(3) == 0:
				add(`{"event":"content-block-delta","index":%d,"delta":{"type":"block-delta","fields":{"type":"tool_call_chunk","args":%s}}}`, i, quoted(begun))
			case b.kind == kindCall:
				add(`{"event":"content-block-delta","index":%d,"delta":{"type":"tool-call-delta","args":%s}}`, i, quoted(piece))
			case isFirst && r.IntN(2) == 0:
				add(`{"event":"content-block-start","index":%d,"content":{"type":%q,%q:%s}}`, i, b.kind, b.kind, quoted(piece))
			default:
				add(`{"event":"content-block-delta","index":%d,"delta":{"type":"%s-delta",%q:%s}}`, i, b.kind, b.kind, quoted(piece))
			}
		}
		if !late {
			end(i)
		}
	}
	for i := range a {
		if late {
			end(i)
		}
	}
	add(`{"event":"message-finish","reason":"stop"}`)
	return lines
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
			case chunk.Custom:
				tb.Fatalf("something is kept: %s", dialecttest.Spell(tb, c))
			}
		}
	}
	slices.Sort(calls)
	return text, thinking, calls
}

// TestAnySplit checks that the log has each text, thought and call once, wherever the model has cut them.
func TestAnySplit(t *testing.T) {
	r := seedtest.Rand(t)
	for range 400 {
		a := randomAnswer(r)
		lines := append(a.events(r), "-")
		steps := suite.Translate(t, lines)
		dialecttest.Fold(t, steps)
		text, thinking, calls := content(t, steps)
		size := [3]int{}
		for _, b := range a {
			switch b.kind {
			case kindText:
				size[0] += len(b.text)
			case kindReasoning:
				size[1] += len(b.text)
			default:
				size[2]++
			}
			if !strings.Contains(text, b.text) && !strings.Contains(thinking, b.text) && !slices.Contains(calls, b.text) {
				t.Fatalf("%s:\nno chunk has %q", strings.Join(lines, "\n"), b.text)
			}
		}
		if size != [3]int{len(text), len(thinking), len(calls)} {
			t.Fatalf("%s:\nhave %q %q %q", strings.Join(lines, "\n"), text, thinking, calls)
		}
	}
}

// TestAnyOrder checks that the chunks are those of a log for the events of all streams in any order, some of them twice.
func TestAnyOrder(t *testing.T) { suite.AnyOrder(t) }

// FuzzTranslate checks that the chunks are those of a log for any lines.
func FuzzTranslate(f *testing.F) { suite.Fuzz(f) }
