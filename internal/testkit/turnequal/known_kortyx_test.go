//go:build !race

package turnequal_test

import (
	"slices"
	"strings"

	"github.com/tailrace/tailrace/internal/turn"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/turnequal"
)

var knownKortyx = turnequal.Differences{{
	Name: "end of the last sub-agent while a user is asked", Dialect: turnequal.Kortyx,
	Reason:  "the run continues only when the user has answered, and clients answer after the end of the response",
	Accepts: endsWhilePaused,
}, {
	Name: "outcome without a start, or late", Dialect: turnequal.Kortyx,
	Reason: "an outcome ends the text around it where the snapshot has two parts: if its call has no start, and not if its call has an outcome",
	Accepts: func(c *turnequal.Case, at int) bool {
		call := callBefore(c, at, at)
		return isOutcome(c.Log[at].Type) && (!call.begun || call.ended || call.missed)
	},
}, {
	Name: "number behind an id that is used again", Dialect: turnequal.Kortyx,
	Reason:  "a client would take the second call with an id for the first one",
	Accepts: func(c *turnequal.Case, at int) bool { return isOfCall(c.Log[at].Type) && callBefore(c, at, at+1).again },
}, {
	Name: "pause of a turn that waits or has ended", Dialect: turnequal.Kortyx,
	Reason: "a client that connected again gets the end of its response also if the turn had ended before",
	Accepts: func(c *turnequal.Case, at int) bool {
		return c.Log[at].Type == chunk.TypeStreamPaused && isOver(c, at)
	},
}, {
	Name: "interruption that is hidden", Dialect: turnequal.Kortyx,
	Reason: "the interruption ends the text before it, whether a client sees it or not",
	Accepts: func(c *turnequal.Case, at int) bool {
		return c.Log[at].Type == chunk.TypeRunInterrupted && c.Hidden[at]
	},
}, {
	Name: "pause for sub-agents that are hidden", Dialect: turnequal.Kortyx,
	Reason: "as in the other dialects, a response does not wait for sub-agents whose start the client did not get",
	Accepts: func(c *turnequal.Case, at int) bool {
		return c.Log[at].Type == chunk.TypeStreamPaused && runsHidden(c, at)
	},
}, {
	Name: "record of a sub-agent that is repeated or fenced after a hidden one", Dialect: turnequal.Kortyx,
	Reason:  "a hidden record of a sub-agent counts for what is repeated or fenced: no view hides one of two, or the record with which a writer begins",
	Accepts: wasHidden,
}, {
	Name: "resumption of a run that has ended", Dialect: turnequal.Kortyx,
	Reason:  "a run that a user has stopped, or that ended while it waited, is resumed by another run only, as in the other dialects",
	Accepts: func(c *turnequal.Case, at int) bool { return resumes(c.Log[at].Type) && hasEnded(c, at) },
}, {
	Name: "question about the finish tool", Dialect: turnequal.Kortyx,
	Reason: "the call of the finish tool is not shown, also not that of a sub-agent",
	Accepts: func(c *turnequal.Case, at int) bool {
		rec := &c.Log[at]
		return rec.Type == chunk.TypeToolApprovalRequest && rec.Session != c.Log[0].Session && member(rec, "toolName") == "__finish__"
	},
}, {
	Name: "first record of a step after a removal", Dialect: turnequal.Kortyx,
	Reason:  "the removal of records removes their steps, so that the text of an earlier step ends where the next one begins",
	Accepts: beginsStepAgain}, {
	Name: "sub-agent that is the session itself", Dialect: turnequal.Kortyx,
	Reason: "as in the snapshot, a session is not its own sub-agent",
	Accepts: func(c *turnequal.Case, at int) bool {
		startsItself := func(rec chunk.Record) bool {
			return rec.Type == chunk.TypeSubagentStart && member(&rec, "subSessionId") == rec.Session.ID
		}
		return c.Log[at].Type == chunk.TypeSubagentEnd && member(&c.Log[at], "subSessionId") == c.Log[at].Session.ID ||
			c.Log[at].Type == chunk.TypeStreamPaused && slices.ContainsFunc(c.Log[:at], startsItself)
	},
}, {
	Name: "pause after the removal of an outcome", Dialect: turnequal.Kortyx,
	Reason: "a call whose outcome was removed has none: a sub-agent runs it again, or a user is asked",
	Accepts: func(c *turnequal.Case, at int) bool {
		return c.Log[at].Type == chunk.TypeStreamPaused && outcomeRemoved(c, at)
	},
}, {
	Name: "first record is hidden or malformed", Dialect: turnequal.Kortyx,
	Reason: "the session of a turn is that of its first record, also of a hidden one, and a session begins with a record that can be read: a turn begins with a run_started",
	Accepts: func(c *turnequal.Case, _ int) bool {
		_, err := c.Log[0].Decode()
		return c.Hidden[0] && c.Log[0].Type.Control() || err != nil
	},
}, {
	Name: "interruption of a run that waits", Dialect: turnequal.Kortyx,
	Reason: "as in the other dialects, the control record that follows ends the response of a run that waited",
	Accepts: func(c *turnequal.Case, at int) bool {
		return c.Log[at].Type == chunk.TypeRunInterrupted && isOver(c, at)
	},
}, {
	Name: "removal of records after the response", Dialect: turnequal.Kortyx,
	Reason: "records are removed also if the response was over: another process does not have them",
	Accepts: func(c *turnequal.Case, at int) bool {
		return slices.ContainsFunc(handled(c, at+1, false), func(i int) bool { return c.Log[i].Type == chunk.TypeTruncated && isOver(c, i) })
	},
}, {
	Name: "pause while the arguments of a sub-agent's call stream", Dialect: turnequal.Kortyx,
	Reason: "as in the other dialects, a sub-agent runs or will run for such a call, so that the run continues without the client",
	Accepts: func(c *turnequal.Case, at int) bool {
		return c.Log[at].Type == chunk.TypeStreamPaused && streamsDelegation(c, at)
	},
}, {
	Name: "record of an unknown type that is the first of a step", Dialect: turnequal.Kortyx,
	Reason:  "a record of an unknown type changes nothing in the state of the turn: the next record of a known type begins the step",
	Accepts: func(c *turnequal.Case, at int) bool { return !isKnown(&c.Log[at]) },
}, {
	Name: "pause with a call whose records name several tools", Dialect: turnequal.Kortyx,
	Reason: "the tool of a call is that of its first record, as in the other dialects",
	Accepts: func(c *turnequal.Case, at int) bool {
		return c.Log[at].Type == chunk.TypeStreamPaused && renamesTool(c, at)
	},
}, {
	Name: "error of a run that waits or has ended", Dialect: turnequal.Kortyx,
	Reason:  "an error ends the response of a run that continues; that of another one is ended by its control record",
	Accepts: func(c *turnequal.Case, at int) bool { return c.Log[at].Type == chunk.TypeError && isOver(c, at) },
}, {
	Name: "pause after the removal of the first record of a call", Dialect: turnequal.Kortyx,
	Reason: "a call is removed with its first record, as in the other dialects: no step ends between the two",
	Accepts: func(c *turnequal.Case, at int) bool {
		return c.Log[at].Type == chunk.TypeStreamPaused && startRemoved(c, at)
	},
}, {
	Name: "pause with a call that the client does not run", Dialect: turnequal.Kortyx,
	Reason:  "as in the other dialects, the client does not run a call that a user has approved, that a sub-agent runs, or whose arguments are not complete",
	Accepts: runsElsewhere,
}, {
	Name: "step that was reached after the end of a response", Dialect: turnequal.Kortyx,
	Reason:  "a step begins with its first record, also if that came after the end of a response",
	Accepts: reachedLate}}

// resumes reports whether records of a type resume a run that waits or was interrupted.
func resumes(typ chunk.Type) bool {
	return typ == chunk.TypeRunResumed || typ == chunk.TypeStreamActive || typ == chunk.TypeRunStarted
}

// wasHidden reports whether the record of a sub-agent at a place, a later one, or one of a later writer, was hidden before.
func wasHidden(c *turnequal.Case, at int) bool {
	rec := &c.Log[at]
	for i := range c.Log[:at] {
		if before := &c.Log[i]; c.Hidden[i] && before.Session == rec.Session && rec.Session != c.Log[0].Session && (before.Ordinal >= rec.Ordinal || before.Epoch > rec.Epoch) {
			return true
		}
	}
	return false
}

// runsHidden reports whether there is a sub-agent before a place with a start or an end that is hidden, and not both.
func runsHidden(c *turnequal.Case, at int) bool {
	runs := make(map[string]bool)
	for _, i := range handled(c, at, true) {
		rec := &c.Log[i]
		if rec.Session != c.Log[at].Session {
			continue
		}
		switch rec.Type {
		case chunk.TypeSubagentStart:
			runs[member(rec, "subSessionId")] = true
		case chunk.TypeSubagentEnd:
			id := member(rec, "subSessionId")
			if runs[id] = !runs[id]; !runs[id] {
				delete(runs, id) // both records are hidden
			}
		}
	}
	return len(runs) > 0
}

// runState returns the type of the record that ended the latest run of the session before a place, or where it waits, "" for a run that continues.
func runState(c *turnequal.Case, at int) (state chunk.Type) {
	for _, i := range handled(c, at, false) {
		rec := &c.Log[i]
		if rec.Session != c.Log[0].Session {
			continue
		}
		switch rec.Type {
		case chunk.TypeRunStarted:
			state = ""
		case chunk.TypeStreamActive:
			if state == chunk.TypeStreamPaused {
				state = ""
			}
		case chunk.TypeRunResumed:
			if state == chunk.TypeRunInterrupted {
				state = ""
			}
		case chunk.TypeStreamPaused, chunk.TypeRunInterrupted:
			if state == "" {
				state = rec.Type
			}
		case chunk.TypeError:
			if b, _ := chunk.BodyOf[chunk.Error](*rec); !b.Recoverable {
				state = rec.Type
			}
		case chunk.TypeStreamEnd, chunk.TypeStreamFailed:
			state = rec.Type
		}
	}
	return state
}

// endsWhilePaused reports whether the record at a place ends the run of a sub-agent while the run of the session waits.
func endsWhilePaused(c *turnequal.Case, at int) bool {
	of := &c.Log[at]
	if of.Session == c.Log[0].Session || of.Type != chunk.TypeStreamEnd && of.Type != chunk.TypeStreamFailed {
		return false
	}
	// The record that seems to resume the run may be malformed.
	if !anyBefore(c, at, func(rec *chunk.Record) bool {
		return rec.Session == c.Log[0].Session && rec.Type == chunk.TypeStreamPaused
	}) {
		return false
	}
	return slices.ContainsFunc(handled(c, at, false), func(i int) bool {
		return c.Log[i].Session == of.Session && resumes(c.Log[i].Type)
	})
}

// isOver reports whether the run has ended, or waits, before a place.
func isOver(c *turnequal.Case, at int) bool { return runState(c, at) != "" }

// hasEnded reports whether the run has ended before a place.
func hasEnded(c *turnequal.Case, at int) bool {
	switch runState(c, at) {
	case chunk.TypeStreamEnd, chunk.TypeStreamFailed, chunk.TypeError:
		return true
	}
	return false
}

// isOfCall reports whether records of a type are about a call.
func isOfCall(typ chunk.Type) bool {
	switch typ {
	case chunk.TypeToolArgStreamStart, chunk.TypeToolStart, chunk.TypeToolApprovalRequest, chunk.TypeToolApprovalResponse:
		return true
	}
	return isOutcome(typ)
}

// isOutcome reports whether records of a type are outcomes of calls, without the decisions of users.
func isOutcome(typ chunk.Type) bool {
	switch typ {
	case chunk.TypeToolEnd, chunk.TypeToolInputError, chunk.TypeToolOutputError:
		return true
	}
	return false
}

// handled returns the places before an end that a writer handles, and that the client sees or does not see: those of fenced writers, repeated
// and malformed ones are left out.
func handled(c *turnequal.Case, end int, hidden bool) (places []int) {
	type position struct {
		epoch   chunk.Epoch
		ordinal chunk.Ordinal
	}
	last := make(map[chunk.Session]position)
	for i := range c.Log[:min(end, len(c.Log))] {
		rec := &c.Log[i]
		if p := last[rec.Session]; rec.Epoch < p.epoch || rec.Ordinal > 0 && rec.Ordinal <= p.ordinal {
			continue
		}
		last[rec.Session] = position{rec.Epoch, rec.Ordinal}
		if _, err := rec.Decode(); err == nil && c.Hidden[i] == hidden {
			places = append(places, i)
		}
	}
	return places
}

// member returns a string member of a record, "" for none.
func member(rec *chunk.Record, name string) string {
	var m chunk.Members
	if m.Read(rec.Data) != nil {
		return ""
	}
	return m.Text(name)
}

// callState is what the records before a place say of a call.
type callState struct {
	begun, ended bool
	again        bool // its id was used again after an outcome
	missed       bool // it has records from after the end of a response, which a writer does not handle
}

// callBefore returns what the records before an end, without removed ones, say of the call of the record at a place.
func callBefore(c *turnequal.Case, at, end int) (call callState) {
	of := &c.Log[at]
	id := member(of, "toolCallId")
	var records []*chunk.Record
	places := append(handled(c, end, false), handled(c, end, true)...)
	slices.Sort(places)
	for _, i := range places {
		rec := &c.Log[i]
		if rec.Session != of.Session || rec.Type != chunk.TypeTruncated && c.Hidden[i] != c.Hidden[at] {
			continue
		}
		if b, ok := chunk.BodyOf[chunk.Truncated](*rec); ok {
			records = slices.DeleteFunc(records, func(rec *chunk.Record) bool { return b.Removes(rec.Ordinal) })
		}
		if isOfCall(rec.Type) && member(rec, "toolCallId") == id && member(rec, "toolName") != "__finish__" {
			records = append(records, rec)
			call.missed = call.missed || isOver(c, i)
		}
	}
	for _, rec := range records {
		switch {
		case isOutcome(rec.Type) || rec.Type == chunk.TypeToolApprovalResponse && !approves(rec):
			call.ended = true
		case rec.Type != chunk.TypeToolApprovalResponse:
			call.again = call.again || call.ended
			call.begun, call.ended = true, false
		}
	}
	return call
}

func approves(rec *chunk.Record) bool {
	var m chunk.Members
	return m.Read(rec.Data) == nil && string(m.Get("approved")) == "true"
}

// beginsStepAgain reports whether the record at a place has the highest step since a removal of records that had a higher one.
func beginsStepAgain(c *turnequal.Case, at int) bool {
	highest, before := int64(0), int64(0)
	of := &c.Log[at]
	places := append(handled(c, at, false), handled(c, at, true)...)
	slices.Sort(places)
	for _, i := range places {
		rec := &c.Log[i]
		switch {
		case rec.Session != of.Session:
		case rec.Type == chunk.TypeTruncated:
			before, highest = max(before, highest), 0
		case !rec.Type.Control():
			highest = max(highest, step(rec))
		}
	}
	return step(of) > highest && step(of) <= before
}

func step(rec *chunk.Record) int64 {
	var m chunk.Members
	if m.Read(rec.Data) != nil {
		return 0
	}
	n, _ := turn.Digits(m.Get("step"))
	return n
}

// streamsDelegation reports whether a call of a sub-agent was announced before a place, by its arguments or by a request that a rule answers.
func streamsDelegation(c *turnequal.Case, at int) bool {
	return slices.ContainsFunc(handled(c, at, false), func(i int) bool {
		rec := &c.Log[i]
		announces := rec.Type == chunk.TypeToolArgStreamStart || rec.Type == chunk.TypeToolApprovalRequest
		return announces && rec.Session == c.Log[0].Session && strings.HasPrefix(member(rec, "toolName"), turn.SubAgentTool)
	})
}

// isKnown reports whether this build knows the type of a record.
func isKnown(rec *chunk.Record) bool {
	var m chunk.Members
	if m.Read(rec.Data) != nil {
		return true
	}
	_, known := m.Type()
	return known
}

// renamesTool reports whether records of a call before a place name several tools.
func renamesTool(c *turnequal.Case, at int) bool {
	names := make(map[string]string) // by session and id
	return slices.ContainsFunc(handled(c, at, false), func(i int) bool {
		rec := &c.Log[i]
		name, id := member(rec, "toolName"), rec.Session.ID+" "+member(rec, "toolCallId")
		before, known := names[id]
		if name != "" {
			names[id] = name
		}
		return known && name != "" && name != before
	})
}

// runsElsewhere reports whether a run waits after a place, and has a call before it that a user or a rule has approved, that a sub-agent has been started for, or whose
// arguments began again after its start.
func runsElsewhere(c *turnequal.Case, at int) bool {
	if typ := c.Log[at].Type; typ != chunk.TypeStreamPaused && typ != chunk.TypeStreamEnd && typ != chunk.TypeStreamFailed {
		return false
	}
	called, delegated := make(map[string]bool), make(map[string]bool)
	return slices.ContainsFunc(handled(c, at, false), func(i int) bool {
		rec := &c.Log[i]
		id := rec.Session.ID + " " + member(rec, "toolCallId")
		switch rec.Type {
		case chunk.TypeToolStart, chunk.TypeToolApprovalRequest:
			called[id] = true
			return delegated[id]
		case chunk.TypeToolApprovalResponse:
			return approves(rec) && called[id]
		case chunk.TypeToolArgStreamStart:
			return called[id]
		case chunk.TypeSubagentStart:
			id = rec.Session.ID + " " + member(rec, "callId")
			delegated[id] = true
			return called[id]
		}
		return false
	})
}

// startRemoved reports whether the first record about a call of the session was removed before a place, and a later one was not.
func startRemoved(c *turnequal.Case, at int) bool {
	calls := make(map[string][]chunk.Ordinal)
	for _, i := range handled(c, at, false) {
		rec := &c.Log[i]
		if rec.Session != c.Log[0].Session {
			continue
		}
		b, ok := chunk.BodyOf[chunk.Truncated](*rec)
		for _, records := range calls {
			if ok && b.Removes(records[0]) && slices.ContainsFunc(records, func(o chunk.Ordinal) bool { return !b.Removes(o) }) {
				return true
			}
		}
		if id := member(rec, "toolCallId"); isOfCall(rec.Type) {
			calls[id] = append(calls[id], rec.Ordinal)
		}
	}
	return false
}
