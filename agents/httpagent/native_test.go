package httpagent

import (
	"strings"
	"testing"

	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/testkit/chunktest"
)

// What an endpoint writes as chunks of the log is in the chunks that are written, also what is in the end of its stream.
func TestNativeIsKept(t *testing.T) {
	for _, kind := range chunktest.Types() {
		t.Run(string(kind), func(t *testing.T) {
			in, err := chunktest.Full(kind).AppendJSON(nil)
			if err != nil {
				t.Fatal(err)
			}
			n := newNativeTranslator(codec.Run{Session: "s1", AgentType: "agent", RunID: "r1"})
			out, err := n.Translate(in)
			if err != nil {
				t.Fatal(err)
			}
			var all strings.Builder
			for _, c := range append(out, n.End()...) {
				text, err := c.AppendJSON(nil)
				if err != nil {
					t.Fatal(err)
				}
				all.Write(text)
			}
			for name, value := range rawjson.Members(in) {
				switch string(name.Bytes()) {
				case "agentId", "agentType", "timestamp", "step", "streamId": // they are those of the run
				default:
					if !strings.Contains(all.String(), string(value)) {
						t.Errorf("%s: %s of %s is not in %s", name, value, in, &all)
					}
				}
			}
		})
	}
}
