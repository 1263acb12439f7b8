// Package posttest makes the POSTs of a stock client of the AI SDK.
package posttest

import (
	"fmt"
	"strings"
)

// User returns a message of a user.
func User(id, text string) string {
	return fmt.Sprintf(`{"id":%q,"role":"user","parts":[{"type":"text","text":%q}]}`, id, text)
}

// Body returns the body of a POST with messages, and with further members. Its trigger is submit-message if they have none.
func Body(members string, messages ...string) string {
	if !strings.Contains(members, `"trigger":`) {
		members += `,"trigger":"submit-message"`
	}
	return `{"id":"s1","messages":[` + strings.Join(messages, ",") + `]` + members + `}`
}

// Assistant returns a message of the assistant: its id, then "step" for a step, and "<call>=<answer>" for a call, with the run in front of "::" for an approval.
func Assistant(spec string) string {
	words := strings.Fields(spec)
	var parts []string
	for _, w := range words[1:] {
		call, answer, isCall := strings.Cut(w, "=")
		run, named, given := strings.Cut(call, "::")
		if !given {
			named, run = call, "r"
		}
		switch {
		case !isCall:
			parts = append(parts, `{"type":"step-start"}`)
		case answer == "yes" || answer == "no":
			parts = append(parts, fmt.Sprintf(`{"type":"dynamic-tool","toolName":"pay","toolCallId":%q,"state":"approval-responded","input":{},"providerExecuted":true,"approval":{"id":%q,"approved":%t}}`, named, run+"::"+named, answer == "yes"))
		case answer == "server":
			parts = append(parts, fmt.Sprintf(`{"type":"dynamic-tool","toolName":"search","toolCallId":%q,"state":"output-available","input":{},"output":1,"providerExecuted":true}`, named))
		case answer == "broke":
			parts = append(parts, fmt.Sprintf(`{"type":"tool-browser","toolCallId":%q,"state":"output-error","input":{},"errorText":"broke"}`, named))
		default:
			parts = append(parts, fmt.Sprintf(`{"type":"tool-browser","toolCallId":%q,"state":"output-available","input":{},"output":%s}`, named, answer))
		}
	}
	return fmt.Sprintf(`{"id":%q,"role":"assistant","parts":[%s]}`, words[0], strings.Join(parts, ","))
}
