package turn

import (
	"bytes"

	"github.com/tailrace/tailrace/internal/rawjson"
)

// The names of tools that writers know.
const (
	FinishTool   = "__finish__" // an agent calls it with its structured output; it is not shown
	SubAgentTool = "subagent__" // prefix of the tools that are sub-agents
)

// rest returns the text of whole after written, or all of it if it does not start with written. Both are contents of JSON strings.
func rest(written, whole []byte) []byte {
	a, b := rawjson.Unescaped(written), rawjson.Unescaped(whole)
	if !bytes.HasPrefix(b, a) {
		return whole
	}
	return rawjson.AppendEscaped(nil, b[len(a):])
}
