package npm

import (
	"encoding/json"
	"slices"
	"strings"
)

// AGUIMessages returns messages of AG-UI as text, without what the documentation of codec/agui lists as different between the messages that a client has and those
// of the snapshot.
func AGUIMessages(list []map[string]any) string {
	var b strings.Builder
	var results []string
	flush := func() {
		slices.Sort(results)
		b.WriteString(strings.Join(results, ""))
		results = nil
	}
	for _, m := range list {
		if m["subagentRunId"] != nil {
			continue
		}
		calls, _ := m["toolCalls"].([]any)
		for _, v := range calls {
			c, _ := v.(map[string]any)
			f, _ := c["function"].(map[string]any)
			text, _ := f["arguments"].(string)
			var arguments any
			if metadata, _ := c["metadata"].(map[string]any); metadata["arguments"] != nil {
				arguments = metadata["arguments"]
			} else if json.Unmarshal([]byte(text), &arguments) != nil {
				arguments = "incomplete"
			}
			f["arguments"] = arguments
			delete(c, "metadata")
		}
		if metadata, _ := m["metadata"].(map[string]any); m["role"] == "tool" {
			delete(metadata, "errorCode")
		}
		text, err := json.Marshal(m)
		if err != nil {
			return err.Error()
		}
		if m["role"] == "tool" {
			results = append(results, string(text)+"\n")
			continue
		}
		flush()
		b.WriteString(string(text) + "\n")
	}
	flush()
	return b.String()
}
