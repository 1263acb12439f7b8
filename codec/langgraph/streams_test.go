package langgraph

import (
	"errors"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/testkit/dialecttest"
)

var suite = dialecttest.Suite{New: func() codec.Translator { return New(dialecttest.Run) }, Files: []string{"testdata/streams.txt"}}

// TestStreams compares the chunks for each event of the streams with the golden file.
func TestStreams(t *testing.T) { suite.Golden(t, "testdata/chunks.txt") }

// TestEachMember wants an event in the streams for each member of the unions in the types of @langchain/protocol.
func TestEachMember(t *testing.T) {
	seen := map[string]bool{}
	_, lines := suite.Streams(t)
	for _, all := range lines {
		for _, line := range all {
			get := func(path ...string) string {
				return dialect.TextAt([]byte(line), append([]string{"params", "data"}, path...)...)
			}
			method := dialect.TextAt([]byte(line), "method")
			seen["method "+method] = true
			seen[method+" "+get("event")] = true
			seen["delta "+get("delta", "type")] = true
			for _, member := range []string{"content", "contentBlock"} {
				seen["block "+get(member, "type")] = true
			}
		}
	}
	for line := range strings.Lines(dialecttest.Read(t, "testdata/unions.txt")) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "//") && !seen[line] {
			t.Errorf("no stream has %s", line)
		}
	}
}

// TestInputMessages wants no chunk for the messages of users and systems: the run has the first, and the second are prompts.
func TestInputMessages(t *testing.T) {
	event := func(data string) string {
		return `{"type":"event","method":"messages","params":{"namespace":[],"data":` + data + `}}`
	}
	for _, role := range []string{"human", "system"} {
		steps := suite.Translate(t, []string{
			event(`{"event":"message-start","role":"` + role + `","id":"m1"}`), event(`{"event":"content-block-start","index":0,"content":{"type":"text","text":"secret"}}`),
			event(`{"event":"content-block-finish","index":0,"content":{"type":"text","text":"secret"}}`), event(`{"event":"message-finish"}`),
		})
		for _, chunks := range steps {
			if len(chunks) > 0 {
				t.Errorf("%s: %s", role, dialecttest.Spell(t, chunks[0]))
			}
		}
	}
}

// TestRefused wants an error for what is not an event.
func TestRefused(t *testing.T) {
	for _, line := range []string{``, `1`, `{}`, `{"type":"event"}`, `{"method":1}`} {
		if chunks, err := New(codec.Run{Session: "s1"}).Translate([]byte(line)); !errors.Is(err, chunk.ErrInvalid) || chunks != nil {
			t.Errorf("%s: %v, %v", line, chunks, err)
		}
	}
}
