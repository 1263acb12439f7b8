package anthropic

import (
	"strings"
	"testing"

	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/testkit/dialecttest"
)

var suite = dialecttest.Suite{New: func() codec.Translator { return New(dialecttest.Run) }, Files: []string{"testdata/streams.txt"}}

// TestStreams compares the chunks for each event of the streams with the golden file.
func TestStreams(t *testing.T) { suite.Golden(t, "testdata/chunks.txt", "/home/", "secret") }

// TestEachMember wants an event in the streams for each member of the unions in the types of the packages of Anthropic.
func TestEachMember(t *testing.T) {
	seen := map[string]bool{}
	var walk func(v []byte, label string)
	walk = func(v []byte, label string) {
		get := func(path ...string) string { return dialect.TextAt(v, path...) }
		kind := get("type")
		switch {
		case strings.HasPrefix(kind, "message_") || strings.HasPrefix(kind, "content_block_"):
			seen["event "+kind] = true
		case get("subtype") != "":
			seen["message "+kind+" "+get("subtype")] = true
		default:
			seen[label+kind] = true
		}
		seen["delta "+get("delta", "type")] = true
		seen["stop "+get("delta", "stop_reason")] = true
		seen["citation "+get("delta", "citation", "type")] = true
		seen["block "+get("content_block", "type")] = true
		if inner := rawjson.Get(v, "event"); inner != nil {
			walk(inner, "event ")
		}
	}
	_, lines := suite.Streams(t)
	for _, all := range lines {
		for _, line := range all {
			walk([]byte(line), "message ")
		}
	}
	for line := range strings.Lines(dialecttest.Read(t, "testdata/unions.txt")) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "//") && !seen[line] {
			t.Errorf("no stream has %s", line)
		}
	}
}
