//go:build !race

package turnequal_test

import (
	"slices"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/turnequal"
	"github.com/tailrace/tailrace/internal/turn"
)

var knownMastra = turnequal.Differences{{
	Name: "end of the last sub-agent while a user is asked", Dialect: turnequal.Mastra,
	Reason:  "the run continues only when the user has answered, and clients answer after the end of the response",
	Accepts: endsWhilePaused,
}, {
	Name: "piece of arguments without a start", Dialect: turnequal.Mastra,
	Reason: "as in the other dialects, arguments stream from their start, which names the tool",
	Accepts: func(c *turnequal.Case, at int) bool {
		call := callBefore(c, at, at)
		return isPieceOfInput(c.Log[at].Type) && (!call.begun || call.ended || call.missed)
	},
}, {
	Name: "number behind an id that is used again", Dialect: turnequal.Mastra,
	Reason: "a client would take the second call with an id for the first one",
	Accepts: func(c *turnequal.Case, at int) bool {
		return (isOfCall(c.Log[at].Type) || isPieceOfInput(c.Log[at].Type)) && callBefore(c, at, at+1).again
	},
}, {
	Name: "interruption that is hidden", Dialect: turnequal.Mastra,
	Reason: "the interruption ends the text before it, whether a client sees it or not",
	Accepts: func(c *turnequal.Case, at int) bool {
		return c.Log[at].Type == chunk.TypeRunInterrupted && c.Hidden[at]
	},
}, {
	Name: "pause for sub-agents that are hidden", Dialect: turnequal.Mastra,
	Reason: "as in the other dialects, a sub-agent runs from the start to the end that the client got",
	Accepts: func(c *turnequal.Case, at int) bool {
		return c.Log[at].Type == chunk.TypeStreamPaused && runsHidden(c, at)
	},
}, {
	Name: "step with over 2^31 tokens", Dialect: turnequal.Mastra,
	Reason: "tokens are counted up to the largest integer that a client reads exactly, as in the other dialects",
	Accepts: func(c *turnequal.Case, at int) bool {
		typ := c.Log[at].Type
		return (typ == chunk.TypeStepEnd || typ == chunk.TypeSubagentEnd || endsResponse(typ)) && usesManyTokens(c, at)
	},
}, {
	Name: "first record is hidden", Dialect: turnequal.Mastra,
	Reason:  "the session of a turn is that of its first record, also of a hidden one: a turn begins with a record that every client gets",
	Accepts: beginsElsewhere,
}, {
	Name: "call in a text of a network", Dialect: turnequal.Mastra,
	Reason: "a call ends the text around it where the snapshot has two parts, also if the chunks of a network have the call",
	Accepts: func(c *turnequal.Case, at int) bool {
		return (isText(c.Log[at].Type) || isOfCall(c.Log[at].Type)) && isOfNetwork(c, at)
	},
}, {
	Name: "text of a sub-agent that is open where a response ends", Dialect: turnequal.Mastra,
	Reason:  "as in the other dialects, the end of a response ends the texts of all agents",
	Accepts: func(c *turnequal.Case, at int) bool { return endsResponse(c.Log[at].Type) && hasTextOfSubAgent(c, at) },
}, {
	Name: "removal of the start of a sub-agent", Dialect: turnequal.Mastra,
	Reason: "a sub-agent whose start was removed does not run: the run does not wait for it, and it may be started again",
	Accepts: func(c *turnequal.Case, at int) bool {
		switch c.Log[at].Type {
		case chunk.TypeTruncated, chunk.TypeStreamPaused, chunk.TypeSubagentStart, chunk.TypeSubagentEnd:
			return removesType(c, at, chunk.TypeSubagentStart)
		}
		return false
	},
}, {
	Name: "removal of an outcome", Dialect: turnequal.Mastra,
	Reason:  "the removal of an outcome does not remove the name of the tool, and the input of a call that has its outcome is not kept",
	Accepts: losesOutcome,
}, {
	Name: "pause with a call that the client does not run", Dialect: turnequal.Mastra,
	Reason:  "as in the other dialects, the client does not run a call that a user has approved, that a sub-agent runs, or whose arguments are not complete",
	Accepts: runsElsewhere,
}, {
	Name: "removal of other records of an agent that waits for data", Dialect: turnequal.Mastra,
	Reason: "the removal of other records does not end that an agent waits",
	Accepts: func(c *turnequal.Case, at int) bool {
		return (endsResponse(c.Log[at].Type) || c.Log[at].Type == chunk.TypeStreamActive) && staysSuspended(c, at)
	},
}, {
	Name: "pause of a turn that waits or has ended", Dialect: turnequal.Mastra,
	Reason:  "a pause that follows another one ends the response if a user was asked since, as in the other dialects",
	Accepts: func(c *turnequal.Case, at int) bool { return c.Log[at].Type == chunk.TypeStreamPaused && isOver(c, at) },
}, {
	Name: "sub-agent that is the session itself", Dialect: turnequal.Mastra,
	Reason: "as in the snapshot, a session is not its own sub-agent",
	Accepts: func(c *turnequal.Case, at int) bool {
		typ := c.Log[at].Type
		return (typ == chunk.TypeSubagentStart || typ == chunk.TypeSubagentEnd) && member(&c.Log[at], "subSessionId") == c.Log[at].Session.ID
	},
}, {
	Name: "arguments that stream again after the question", Dialect: turnequal.Mastra,
	Reason:  "the arguments of a call begin again when a run repeats it: then the question is asked again too",
	Accepts: streamsAfterQuestion,
}, {
	Name: "end of a response before its first record", Dialect: turnequal.Mastra,
	Reason:  "a response begins with the first record of which something is shown: retention has removed the start of the run",
	Accepts: func(c *turnequal.Case, at int) bool { return endsResponse(c.Log[at].Type) && !hasBegun(c, at) },
}, {
	Name: "second outcome of a call of an earlier turn", Dialect: turnequal.Mastra,
	Reason: "an answer to a call of an earlier turn does not end the call, of which the turn has no start",
	Accepts: func(c *turnequal.Case, at int) bool {
		call := callBefore(c, at, at)
		return isOfCall(c.Log[at].Type) && call.ended && (!call.begun || call.missed)
	},
}, {
	Name: "step that was reached after the end of a response", Dialect: turnequal.Mastra,
	Reason:  "a step begins once, also if its first record came after the end of a response",
	Accepts: reachedLate,
}, {
	Name: "end of a step of a network in which a call has no start", Dialect: turnequal.Mastra,
	Reason: "a piece or an answer without a start begins no call, also in a network",
	Accepts: func(c *turnequal.Case, at int) bool {
		typ := c.Log[at].Type
		return (typ == chunk.TypeStepEnd || endsResponse(typ)) && wroteNetwork(c, at) && slices.ContainsFunc(handled(c, at, false), func(i int) bool {
			of := c.Log[i].Type
			return c.Log[i].Session == c.Log[at].Session && (isPieceOfInput(of) || isOutcome(of) || of == chunk.TypeToolApprovalResponse)
		})
	},
}, {
	Name: "decision about a call of a network that has its outcome", Dialect: turnequal.Mastra,
	Reason: "a call has one outcome, also in a network",
	Accepts: func(c *turnequal.Case, at int) bool {
		call := callBefore(c, at, at)
		return c.Log[at].Type == chunk.TypeToolApprovalResponse && isOfNetwork(c, at) && (!call.begun || call.ended)
	},
}, {
	Name: "pause after the end of a sub-agent that its parent has not noted", Dialect: turnequal.Mastra,
	Reason: "as in the other dialects, the run continues without the client when it gets the result of a sub-agent",
	Accepts: func(c *turnequal.Case, at int) bool {
		return c.Log[at].Type == chunk.TypeStreamPaused && endedUnnoted(c, at)
	},
}, {
	Name: "pause after the removal of a question", Dialect: turnequal.Mastra,
	Reason: "a question that was removed is not asked",
	Accepts: func(c *turnequal.Case, at int) bool {
		return c.Log[at].Type == chunk.TypeStreamPaused && removesType(c, at, chunk.TypeToolApprovalRequest)
	},
}, {
	Name: "hidden record of an unknown type that is the first of a step", Dialect: turnequal.Mastra,
	Reason: "a record of an unknown type changes nothing in the state of the turn, whether it is hidden or not",
	Accepts: func(c *turnequal.Case, at int) bool {
		return c.Hidden[at] && !isKnown(&c.Log[at]) || unknownStep(c, at)
	},
}, {
	Name: "text of a sub-agent after its end", Dialect: turnequal.Mastra,
	Reason: "an end of a sub-agent ends its text, also if it had ended before",
	Accepts: func(c *turnequal.Case, at int) bool {
		return c.Log[at].Type == chunk.TypeSubagentEnd && writesAfterEnd(c, at)
	},
}, {
	Name: "text of a sub-agent that is started again", Dialect: turnequal.Mastra,
	Reason: "the end of a text is wrapped as its start was, not as the output of the call that starts the sub-agent again",
	Accepts: func(c *turnequal.Case, at int) bool {
		return c.Log[at].Type == chunk.TypeSubagentStart && anyBefore(c, at-1, func(rec *chunk.Record) bool {
			return rec.Type == chunk.TypeSubagentStart && member(rec, "subSessionId") == member(&c.Log[at], "subSessionId")
		})
	},
}, {
	Name: "sub-agent that is started again before its end", Dialect: turnequal.Mastra,
	Reason: "as in the other dialects, a sub-agent runs until its parent notes its end",
	Accepts: func(c *turnequal.Case, at int) bool {
		return c.Log[at].Type == chunk.TypeSubagentStart && endedUnnoted(c, at)
	},
}, {
	Name: "call of a sub-agent that has ended", Dialect: turnequal.Mastra,
	Reason: "a call has one outcome and is written once, also if its agent has ended before",
	Accepts: func(c *turnequal.Case, at int) bool {
		return (isOfCall(c.Log[at].Type) || isPieceOfInput(c.Log[at].Type)) && agentEnded(c, at)
	},
}, {
	Name: "arguments that stream when another run begins or records are removed", Dialect: turnequal.Mastra,
	Reason:  "as in the other dialects, the arguments begin again in another run, and after a removal",
	Accepts: func(c *turnequal.Case, at int) bool { return isPieceOfInput(c.Log[at].Type) && cutsInput(c, at) },
}, {
	Name: "id that a call of the finish tool has too", Dialect: turnequal.Mastra,
	Reason: "the call of the finish tool is not one of the turn, so that its id says nothing about another call",
	Accepts: func(c *turnequal.Case, at int) bool {
		return (isOfCall(c.Log[at].Type) || isPieceOfInput(c.Log[at].Type) || c.Log[at].Type == chunk.TypeStreamPaused) && finishes(c, at)
	},
}, {
	Name: "another turn after one of a network", Dialect: turnequal.Mastra,
	Reason: "the end of a response that another turn ends has no cursor: its record is of the next response",
	Accepts: func(c *turnequal.Case, at int) bool {
		return c.Log[at].Type == chunk.TypeRunStarted && wroteNetwork(c, at)
	},
}, {
	Name: "sub-agent of a call that has its outcome", Dialect: turnequal.Mastra,
	Reason:  "a sub-agent is a workflow if a call without an outcome started it that is one of a workflow",
	Accepts: startsLate,
}, {
	Name: "run of a sub-agent that begins or continues in its text", Dialect: turnequal.Mastra,
	Reason: "as in the other dialects, each control record of a sub-agent ends its text",
	Accepts: func(c *turnequal.Case, at int) bool {
		rec := &c.Log[at]
		return rec.Session != c.Log[0].Session && (rec.Type == chunk.TypeStreamActive || rec.Type == chunk.TypeRunStarted) && hasTextOfSubAgent(c, at)
	},
}, {
	Name: "request of a later response that a rule answers", Dialect: turnequal.Mastra,
	Reason: "a request that a rule answers is not shown: a call of an earlier response is written again with its outcome",
	Accepts: func(c *turnequal.Case, at int) bool {
		var m chunk.Members
		call := callBefore(c, at, at)
		return c.Log[at].Type == chunk.TypeToolApprovalRequest && call.begun && !call.ended && m.Read(c.Log[at].Data) == nil && string(m.Get("isAutomatic")) == "true"
	},
}, {
	Name: "removal of arguments that replaced others", Dialect: turnequal.Mastra,
	Reason:  "the first arguments of a call are not kept: after the removal of others the call has no arguments, until the run that repeats the step writes them again",
	Accepts: losesInput,
}, {
	Name: "piece of a text in which a network or a workflow begins", Dialect: turnequal.Mastra,
	Reason:  "the frames of a piece are those of the network or workflow, whether the writer has a frame of the text or not",
	Accepts: func(c *turnequal.Case, at int) bool { return isText(c.Log[at].Type) && wroteOriginal(c, at) },
}}

// isPieceOfInput reports whether records of a type have a piece of the arguments of a call, or end them.
func isPieceOfInput(typ chunk.Type) bool {
	return typ == chunk.TypeToolArgStreamDelta || typ == chunk.TypeToolArgStreamEnd
}

// usesManyTokens reports whether a step up to a place has more tokens than the old writer counts.
func usesManyTokens(c *turnequal.Case, at int) bool {
	return slices.ContainsFunc(handled(c, at+1, false), func(i int) bool {
		var m chunk.Members
		var u turn.Usage
		if c.Log[i].Type != chunk.TypeStepEnd || m.Read(c.Log[i].Data) != nil {
			return false
		}
		u.Add(m.Get("usage"))
		return max(u.Input, u.Output, u.Cached, u.CacheWrite) > 1<<31
	})
}

// beginsElsewhere reports whether the first records are hidden, and one of them is of another session than the first one that is not, has reached the step of the
// record at a place, or is repeated up to it.
func beginsElsewhere(c *turnequal.Case, at int) bool {
	first := slices.Index(c.Hidden, false)
	return first > 0 && slices.ContainsFunc(c.Log[:first], func(rec chunk.Record) bool {
		return rec.Session != c.Log[first].Session || step(&rec) > 0 && step(&rec) >= step(&c.Log[at]) || slices.ContainsFunc(c.Log[first:max(first, at+1)], func(of chunk.Record) bool {
			return of.Session == rec.Session && of.Ordinal <= rec.Ordinal
		})
	})
}

// losesOutcome reports whether an outcome of the call of the record at a place, or of any call if it is a pause, was removed before.
func losesOutcome(c *turnequal.Case, at int) bool {
	of, outcomes := &c.Log[at], []chunk.Ordinal(nil)
	id := member(of, "toolCallId")
	if id == "" && of.Type != chunk.TypeStreamPaused {
		return false
	}
	return slices.ContainsFunc(handled(c, at, false), func(i int) bool {
		rec := &c.Log[i]
		if rec.Session != of.Session {
			return false
		}
		if (isOutcome(rec.Type) || rec.Type == chunk.TypeToolApprovalResponse) && (id == "" || member(rec, "toolCallId") == id) {
			outcomes = append(outcomes, rec.Ordinal)
		}
		b, ok := chunk.BodyOf[chunk.Truncated](*rec)
		return ok && slices.ContainsFunc(outcomes, b.Removes)
	})
}

// losesInput reports whether a later record with the arguments of the call of the record at a place, or of any call if it is a pause, was removed before, and the first
// record of the call was not.
func losesInput(c *turnequal.Case, at int) bool {
	of := &c.Log[at]
	id := member(of, "toolCallId")
	if id == "" && of.Type != chunk.TypeStreamPaused {
		return false
	}
	calls := make(map[string][]chunk.Ordinal)
	return slices.ContainsFunc(handled(c, at, false), func(i int) bool {
		rec := &c.Log[i]
		call := member(rec, "toolCallId")
		if rec.Session != of.Session {
			return false
		}
		switch rec.Type {
		case chunk.TypeToolArgStreamStart, chunk.TypeToolStart, chunk.TypeToolApprovalRequest, chunk.TypeToolInputError:
			if id != "" && call != id {
				break
			}
			calls[call] = append(calls[call], rec.Ordinal)
		}
		b, ok := chunk.BodyOf[chunk.Truncated](*rec)
		for _, records := range calls {
			if ok && !b.Removes(records[0]) && slices.ContainsFunc(records, b.Removes) {
				return true
			}
		}
		return false
	})
}

// isText reports whether records of a type have a piece of a text.
func isText(typ chunk.Type) bool { return typ == chunk.TypeTextDelta || typ == chunk.TypeThinking }

// isOfNetwork reports whether the agent of the record at a place has written chunks of a network, and a call, which the record may begin.
func isOfNetwork(c *turnequal.Case, at int) bool {
	return wroteNetwork(c, at) && slices.ContainsFunc(handled(c, at+1, false), func(i int) bool {
		return c.Log[i].Session == c.Log[at].Session && isOfCall(c.Log[i].Type)
	})
}

// wroteNetwork reports whether the agent of the record at a place has written chunks of a network.
func wroteNetwork(c *turnequal.Case, at int) bool {
	return slices.ContainsFunc(handled(c, at, false), func(i int) bool {
		name, kept := strings.CutPrefix(member(&c.Log[i], "eventName"), "mastra.")
		return kept && c.Log[i].Session == c.Log[at].Session && slices.ContainsFunc(networkChunks, func(kind string) bool { return strings.HasPrefix(name, kind) })
	})
}

// networkChunks are the starts of the types of the chunks of a network.
var networkChunks = []string{"routing-agent-", "agent-execution-", "workflow-execution-", "tool-execution-", "network-"}

// endsResponse reports whether records of a type may end a response.
func endsResponse(typ chunk.Type) bool {
	switch typ {
	case chunk.TypeRunStarted, chunk.TypeStreamPaused, chunk.TypeStreamEnd, chunk.TypeStreamFailed, chunk.TypeRunInterrupted:
		return true
	}
	return false
}

// hasTextOfSubAgent reports whether a sub-agent has written a text before a place.
func hasTextOfSubAgent(c *turnequal.Case, at int) bool {
	return slices.ContainsFunc(handled(c, at, false), func(i int) bool { return c.Log[i].Session != c.Log[0].Session && isText(c.Log[i].Type) })
}

// removesType reports whether a record of the session with a type was removed before a place, or by its record.
func removesType(c *turnequal.Case, at int, typ chunk.Type) bool {
	var found []chunk.Ordinal
	for _, i := range handled(c, at+1, false) {
		rec := &c.Log[i]
		if rec.Session != c.Log[0].Session {
			continue
		}
		if rec.Type == typ {
			found = append(found, rec.Ordinal)
		}
		if b, ok := chunk.BodyOf[chunk.Truncated](*rec); ok && slices.ContainsFunc(found, b.Removes) {
			return true
		}
	}
	return false
}

// staysSuspended reports whether a record before a place says that an agent waits for data, and a removal after it names other records of the agent.
func staysSuspended(c *turnequal.Case, at int) bool {
	waits := make(map[string][]chunk.Ordinal)
	return slices.ContainsFunc(handled(c, at, false), func(i int) bool {
		rec := &c.Log[i]
		if name := member(rec, "eventName"); rec.Type == chunk.TypeCustom && strings.HasPrefix(name, "mastra.") && strings.HasSuffix(name, "-suspended") {
			waits[rec.Session.ID] = append(waits[rec.Session.ID], rec.Ordinal)
		}
		b, ok := chunk.BodyOf[chunk.Truncated](*rec)
		return ok && slices.ContainsFunc(waits[rec.Session.ID], func(o chunk.Ordinal) bool { return !b.Removes(o) })
	})
}

// streamsAfterQuestion reports whether the arguments of a call began to stream before a place after a request for its approval.
func streamsAfterQuestion(c *turnequal.Case, at int) bool {
	asked := make(map[string]bool)
	return slices.ContainsFunc(handled(c, at+1, false), func(i int) bool {
		rec := &c.Log[i]
		id := rec.Session.ID + " " + member(rec, "toolCallId")
		if rec.Type == chunk.TypeToolApprovalRequest {
			asked[id] = true
		}
		return rec.Type == chunk.TypeToolArgStreamStart && asked[id]
	})
}

// hasBegun reports whether a record before a place began a response.
func hasBegun(c *turnequal.Case, at int) bool {
	return slices.ContainsFunc(handled(c, at, false), func(i int) bool {
		rec := &c.Log[i]
		return rec.Session == c.Log[0].Session && (!rec.Type.Control() && isKnown(rec) || rec.Type == chunk.TypeRunStarted)
	})
}

// reachedLate reports whether the session reached the step of the record at a place after the end of a response.
func reachedLate(c *turnequal.Case, at int) bool {
	return slices.ContainsFunc(append(handled(c, at, false), handled(c, at, true)...), func(i int) bool {
		rec := &c.Log[i]
		return rec.Session == c.Log[0].Session && !rec.Type.Control() && step(rec) >= step(&c.Log[at]) && isOver(c, i)
	})
}

// endedUnnoted reports whether a sub-agent ended before a place, and its parent did not note that.
func endedUnnoted(c *turnequal.Case, at int) bool {
	ended := make(map[string]bool)
	for _, i := range handled(c, at, false) {
		switch rec := &c.Log[i]; rec.Type {
		case chunk.TypeStreamEnd, chunk.TypeStreamFailed:
			ended[rec.Session.ID] = rec.Session != c.Log[0].Session
		case chunk.TypeSubagentEnd:
			delete(ended, member(rec, "subSessionId"))
		}
	}
	delete(ended, c.Log[0].Session.ID)
	return len(ended) > 0
}

// unknownStep reports whether a hidden record of an unknown type reached the step of the record at a place before it.
func unknownStep(c *turnequal.Case, at int) bool {
	return slices.ContainsFunc(handled(c, at, true), func(i int) bool {
		rec := &c.Log[i]
		return rec.Session == c.Log[at].Session && !isKnown(rec) && step(rec) >= step(&c.Log[at])
	})
}

// writesAfterEnd reports whether the sub-agent that the record at a place ends has written a text after it had ended.
func writesAfterEnd(c *turnequal.Case, at int) bool {
	id, ended := member(&c.Log[at], "subSessionId"), false
	return slices.ContainsFunc(handled(c, at, false), func(i int) bool {
		rec := &c.Log[i]
		ends := rec.Type == chunk.TypeSubagentEnd && member(rec, "subSessionId") == id
		if rec.Session.ID == id {
			ends = rec.Type == chunk.TypeStreamEnd || rec.Type == chunk.TypeStreamFailed
		}
		ended = ended || ends
		return ended && rec.Session.ID == id && isText(rec.Type)
	})
}

// agentEnded reports whether the sub-agent of the record at a place ended before it.
func agentEnded(c *turnequal.Case, at int) bool {
	of := c.Log[at].Session
	return of != c.Log[0].Session && slices.ContainsFunc(handled(c, at, false), func(i int) bool {
		rec := &c.Log[i]
		return rec.Type == chunk.TypeSubagentEnd && member(rec, "subSessionId") == of.ID || rec.Session == of && (rec.Type == chunk.TypeStreamEnd || rec.Type == chunk.TypeStreamFailed)
	})
}

// cutsInput reports whether another run began, the run continued, or records were removed between the start of the arguments of which the record at a place has a piece, and the piece.
func cutsInput(c *turnequal.Case, at int) (cuts bool) {
	id := member(&c.Log[at], "toolCallId")
	for _, i := range handled(c, at, false) {
		rec := &c.Log[i]
		switch {
		case resumes(rec.Type), rec.Type == chunk.TypeTruncated:
			cuts = true
		case rec.Type == chunk.TypeToolArgStreamStart && rec.Session == c.Log[at].Session && member(rec, "toolCallId") == id:
			cuts = false
		}
	}
	return cuts
}

// finishes reports whether a call of the finish tool has the id of another one before a place, or of its record.
func finishes(c *turnequal.Case, at int) bool {
	ids := make(map[string]bool) // of calls, true for those of the finish tool
	return slices.ContainsFunc(handled(c, at+1, false), func(i int) bool {
		rec := &c.Log[i]
		if !isOfCall(rec.Type) && !isPieceOfInput(rec.Type) {
			return false
		}
		id, finish := rec.Session.ID+" "+member(rec, "toolCallId"), member(rec, "toolName") == "__finish__"
		before, known := ids[id]
		ids[id] = before || finish
		return known && before != finish
	})
}

// startsLate reports whether a sub-agent was started by a call that has its outcome, before a place or by its record.
func startsLate(c *turnequal.Case, at int) bool {
	ended := make(map[string]bool)
	return slices.ContainsFunc(handled(c, at+1, false), func(i int) bool {
		rec := &c.Log[i]
		if isOutcome(rec.Type) || rec.Type == chunk.TypeToolApprovalResponse {
			ended[rec.Session.ID+" "+member(rec, "toolCallId")] = true
		}
		if b, ok := chunk.BodyOf[chunk.RunStarted](*rec); ok && b.Parent != nil && ended[b.Parent.SessionID+" "+b.Parent.CallID] {
			return true
		}
		return (rec.Type == chunk.TypeSubagentStart || rec.Type == chunk.TypeSubagentEnd) && ended[rec.Session.ID+" "+member(rec, "callId")]
	})
}

// wroteOriginal reports whether the session has a chunk of Mastra between the start of the text of which the record at a place has a piece, and the piece.
func wroteOriginal(c *turnequal.Case, at int) (wrote bool) {
	var m chunk.Members
	for _, i := range handled(c, at, false) {
		rec := &c.Log[i]
		switch {
		case rec.Session != c.Log[at].Session || isText(rec.Type):
		case rec.Type == chunk.TypeCustom && strings.HasPrefix(member(rec, "eventName"), "mastra."):
			wrote = true
		case rec.Type.Control() || m.Read(rec.Data) == nil && turn.EndsText(rec, &m, turn.NoBlock, nil):
			wrote = false
		}
	}
	return wrote
}
