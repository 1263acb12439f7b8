//go:build !race

package turnequal_test

import (
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/turnequal"
)

var knownAGUI = turnequal.Differences{{
	Name: "end of the last sub-agent while a user is asked", Dialect: turnequal.AGUI,
	Reason: "the run continues only when the user has answered, and clients answer after the end of the response",
	Accepts: func(c *turnequal.Case, at int) bool {
		return endsWhilePaused(c, at) && differ(c, "", endOfRun)
	},
}, {
	Name: "arguments of a call whose outcome was removed", Dialect: turnequal.AGUI,
	Reason: "the removal of an outcome does not remove the arguments: the client has them, and may have to run the call",
	Accepts: func(c *turnequal.Case, at int) bool {
		const arguments = "TOOL_CALL_START TOOL_CALL_ARGS "
		return outcomeRemoved(c, at) && differ(c, arguments+endOfRun, arguments+endOfRun)
	},
}, {
	Name: "pause with a sub-agent of a sub-agent", Dialect: turnequal.AGUI,
	Reason: "a run waits for the sub-agents that it has started: one of those may fail without the record of the end of another one below it",
	Accepts: func(c *turnequal.Case, at int) bool {
		nested := map[string]bool{}
		for i, rec := range c.Log[:min(at+1, len(c.Log))] {
			own := rec.Session == c.Log[0].Session
			if own && rec.Type == chunk.TypeStreamPaused && len(nested) > 0 && i == at {
				return differ(c, "", endOfRun)
			}
			if b, ok := chunk.BodyOf[chunk.SubagentStart](rec); ok && !own {
				nested[b.SubSessionID] = true
			} else if b, ok := chunk.BodyOf[chunk.SubagentEnd](rec); ok && !c.Hidden[i] {
				delete(nested, b.SubSessionID)
			}
		}
		return false
	},
}}

// endOfRun has the types of the events with which a response ends.
const endOfRun = "TEXT_MESSAGE_END REASONING_MESSAGE_END REASONING_END TOOL_CALL_END STEP_FINISHED SUBAGENT_FINISHED RUN_FINISHED"

// outcomeRemoved reports whether a record up to at removed the outcome of a call, and not the start of it.
func outcomeRemoved(c *turnequal.Case, at int) bool {
	type call struct{ begun, ended chunk.Ordinal }
	open, done := map[string]chunk.Ordinal{}, []call(nil)
	for i, rec := range c.Log[:min(at+1, len(c.Log))] {
		b, err := rec.Decode()
		if err != nil || c.Hidden[i] || rec.Session != c.Log[0].Session {
			continue
		}
		begin := func(id string) {
			if open[id] == 0 {
				open[id] = rec.Ordinal
			}
		}
		end := func(id string) {
			begin(id)
			done = append(done, call{open[id], rec.Ordinal})
			delete(open, id)
		}
		switch b := b.Body.(type) {
		case chunk.ToolArgStreamStart:
			begin(b.ToolCallID)
		case chunk.ToolStart:
			begin(b.ToolCallID)
		case chunk.ToolApprovalRequest:
			begin(b.ToolCallID)
		case chunk.ToolEnd:
			end(b.ToolCallID)
		case chunk.ToolOutputError:
			end(b.ToolCallID)
		case chunk.ToolInputError:
			end(b.ToolCallID)
		case chunk.ToolApprovalResponse:
			if !b.Approved {
				end(b.ToolCallID)
			}
		case chunk.Truncated:
			for _, removed := range done {
				if b.Removes(removed.ended) && !b.Removes(removed.begun) {
					return true
				}
			}
		}
	}
	return false
}
