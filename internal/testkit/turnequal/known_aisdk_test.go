//go:build !race

package turnequal_test

import (
	"bytes"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/turnequal"
)

var knownAISDK = turnequal.Differences{{
	Name: "end of the last sub-agent while a user is asked", Dialect: turnequal.AISDK,
	Reason: "the run continues only when the user has answered, and clients answer after the end of the response",
	Accepts: func(c *turnequal.Case, at int) bool {
		for i := range min(at+1, len(c.Log)) {
			if endsWhilePaused(c, i) && (differ(c, "*", "") || i == at && differ(c, "", "text-end reasoning-end finish-step start finish DONE")) {
				return true // in a history the end is not written, but what follows it is not either
			}
		}
		return false
	},
}, {
	Name: "hidden interruption", Dialect: turnequal.AISDK,
	Reason: "a hidden record of an interruption ends the text, as a visible one does",
	Accepts: func(c *turnequal.Case, at int) bool {
		return c.Hidden[at] && c.Log[at].Type == chunk.TypeRunInterrupted && differ(c, "", endsOfTexts)
	},
}, {
	Name: "state of the run of a sub-agent", Dialect: turnequal.AISDK,
	Reason: "records of the state of its run do not end the text of a sub-agent, as they do not end that of the session's agent",
	Accepts: func(c *turnequal.Case, at int) bool {
		switch rec := &c.Log[at]; rec.Type {
		case chunk.TypeSuspensionMarker, chunk.TypeRunResumed, chunk.TypeCheckpointCreated, chunk.TypeStepCommitted, chunk.TypeStepDiscarded:
			return rec.Session != c.Log[0].Session && differ(c, endsOfTexts, "")
		}
		return false
	},
}, {
	Name: "latest record", Dialect: turnequal.AISDK,
	Reason: "a hidden record of a sub-agent counts for Meta.LastAt, also if it is the first one",
	Common: func(c *turnequal.Case, at int, frames []byte) []byte {
		for i := range min(at+1, len(c.Log)) {
			if c.Hidden[i] && c.Log[i].Session != c.Log[0].Session {
				return latest.ReplaceAll(frames, nil)
			}
		}
		return frames
	},
}, {
	Name: "members of the part in a request that a rule answers", Dialect: turnequal.AISDK,
	Reason: "a request that a rule answers is not shown, and does not change the part of a call that has its input",
	Accepts: func(c *turnequal.Case, at int) bool {
		return differ(c, framesOfCalls, framesOfCalls) && anyBefore(c, at, func(rec *chunk.Record) bool {
			b, ok := chunk.BodyOf[chunk.ToolApprovalRequest](*rec)
			return ok && b.IsAutomatic != nil && *b.IsAutomatic && bytes.Contains(rec.Data, []byte(`"part"`))
		})
	},
}, {
	Name: "hidden first record", Dialect: turnequal.AISDK,
	Reason: "the first record is that of the turn, also if it is hidden: its session and its time are in the metadata",
	Common: func(c *turnequal.Case, _ int, frames []byte) []byte {
		if !c.Hidden[0] {
			return frames
		}
		return latest.ReplaceAll(session.ReplaceAll(started.ReplaceAll(frames, nil), nil), nil)
	},
}, {
	Name: "session and call of a hidden first record", Dialect: turnequal.AISDK,
	Reason: "the session of the first record is that of the turn, also if it is hidden, and not that of the first one that is shown; its call has begun",
	Accepts: func(c *turnequal.Case, at int) bool {
		first := slices.Index(c.Hidden, false)
		return first > 0 && (c.Log[first].Session != c.Log[0].Session || c.Hidden[at] && differ(c, endsOfTexts, ""))
	},
}, {
	Name: "transient structured data", Dialect: turnequal.AISDK,
	Reason: "a history has structured data, also if a member of its part calls it transient, as the stream and the snapshot do",
	Accepts: func(c *turnequal.Case, at int) bool {
		resets := c.Log[at].Type == chunk.TypeTruncated && differ(c, "reset-step", "data-truncated") // which cannot remove the data
		return (resets || differsInData(c, at)) && anyBefore(c, at, func(rec *chunk.Record) bool {
			return isStructured(rec) && bytes.Contains(rec.Data, []byte("transient")) && (rec != &c.Log[at] || c.Method == "Append of a replay")
		})
	},
}, {
	Name: "text of a sub-agent at its end", Dialect: turnequal.AISDK,
	Reason: "the record of the start or end of a sub-agent ends its text: a log without the end of its session would leave it open",
	Accepts: func(c *turnequal.Case, at int) bool {
		typ := c.Log[at].Type
		return (typ == chunk.TypeSubagentStart || typ == chunk.TypeSubagentEnd) && differ(c, "", endsOfTexts)
	},
}, {
	Name: "another tool", Dialect: turnequal.AISDK,
	Reason: "a call keeps the name of its tool in a new response, also if its arguments begin again with another name",
	Common: func(c *turnequal.Case, at int, frames []byte) []byte {
		names := map[string]string{}
		if c.Method == "Resume" && anyBefore(c, at, func(rec *chunk.Record) bool {
			id, tool, ok := begunBy(rec)
			name, known := names[id]
			if ok && !known {
				names[id] = tool
			}
			return ok && known && name != tool
		}) {
			return toolName.ReplaceAll(frames, nil)
		}
		return frames
	},
}, {
	Name: "step of a record after the end", Dialect: turnequal.AISDK,
	Reason: "the step of a record that is not written, because the turn waits or has ended, is reached, as in the other dialects",
	Accepts: func(c *turnequal.Case, at int) bool {
		idle := false
		const pieces = "text-delta reasoning-delta "
		return differ(c, pieces+"text-start reasoning-start "+endsOfTexts, pieces) && anyBefore(c, at-1, func(rec *chunk.Record) bool {
			switch {
			case rec.Type.Control() || rec.Type == chunk.TypeRunInterrupted || rec.Type == chunk.TypeError || rec.Type == chunk.TypeRunResumed:
				idle = rec.Type != chunk.TypeRunStarted && rec.Type != chunk.TypeStreamActive && rec.Type != chunk.TypeRunResumed
				return false
			}
			return idle && step(rec) >= step(&c.Log[at])
		})
	},
}, {
	Name: "malformed record", Dialect: turnequal.AISDK,
	Reason: "a response does not begin with a record that is malformed",
	Accepts: func(c *turnequal.Case, at int) bool {
		_, err := c.Shown[at].Decode()
		return err != nil && differ(c, "start", "")
	},
}, {
	Name: "start of a sub-agent that runs", Dialect: turnequal.AISDK,
	Reason: "a sub-agent that starts itself, or is started while it runs, is not written, whichever agent starts it",
	Accepts: func(c *turnequal.Case, at int) bool {
		runs, last := map[string]bool{}, false
		for _, i := range handled(c, at+1, false) {
			rec := &c.Log[i]
			last = false
			if b, ok := chunk.BodyOf[chunk.SubagentStart](*rec); ok {
				last = runs[b.SubSessionID] || b.SubSessionID == rec.Session.ID || b.SubSessionID == c.Log[0].Session.ID
				runs[b.SubSessionID] = true
			} else if b, ok := chunk.BodyOf[chunk.SubagentEnd](*rec); ok {
				last = b.SubSessionID == rec.Session.ID || b.SubSessionID == c.Log[0].Session.ID
				runs[b.SubSessionID] = runs[b.SubSessionID] && isOver(c, i)
			}
		}
		return last && differ(c, "start-step finish-step data-subagent-start data-subagent-end", "")
	},
}, {
	Name: "limit of tokens", Dialect: turnequal.AISDK,
	Reason: "a sum of tokens is at most chunk.MaxInteger, as in the other dialects",
	Common: func(_ *turnequal.Case, _ int, frames []byte) []byte {
		return tokens.ReplaceAllFunc(frames, func(n []byte) []byte {
			if sum, err := strconv.ParseInt(string(n[len("Tokens:"):]), 10, 64); err != nil || sum <= chunk.MaxInteger {
				return n
			}
			return []byte("Tokens:" + strconv.Itoa(chunk.MaxInteger))
		})
	},
}, {
	Name: "empty step after an end that was not written", Dialect: turnequal.AISDK,
	Reason: "the old writer counted the empty step of an end whose frames it dropped, so that the client never got one, and posted again",
	Accepts: func(c *turnequal.Case, at int) bool {
		ends := func(rec *chunk.Record) bool {
			return rec.Session == c.Log[0].Session && (rec.Type == chunk.TypeStreamEnd || rec.Type == chunk.TypeStreamFailed)
		}
		return differ(c, "finish-step", "start-step finish-step "+framesOfCalls) && (ends(&c.Log[at]) || c.Log[at].Type == chunk.TypeRunInterrupted || c.Log[at].Type == chunk.TypeError) && anyBefore(c, at-1, ends)
	},
}, {
	Name: "step after a removal that was not written", Dialect: turnequal.AISDK,
	Reason: "the old writer counted a reset-step whose frames it dropped, because the turn had ended, so that the next step had no start-step",
	Accepts: func(c *turnequal.Case, at int) bool {
		return differ(c, "", "start-step") && slices.ContainsFunc(handled(c, at, false), func(i int) bool {
			return c.Log[i].Type == chunk.TypeTruncated && isOver(c, i)
		})
	},
}, {
	Name: "second end after an interruption", Dialect: turnequal.AISDK,
	Reason: "a turn that was interrupted ends with an error or a resumed run only, however often the log has its end",
	Accepts: func(c *turnequal.Case, at int) bool {
		ends := 0
		for _, i := range handled(c, at+1, false) {
			switch rec := &c.Log[i]; {
			case rec.Session != c.Log[0].Session:
			case rec.Type == chunk.TypeRunInterrupted:
				ends = max(ends, 1)
			case rec.Type == chunk.TypeStreamEnd && ends > 0:
				ends++
			case (rec.Type == chunk.TypeRunStarted || rec.Type == chunk.TypeRunResumed) && !removes(c):
				ends = 0
			}
		}
		const frames = "start start-step finish-step finish abort error DONE " + framesOfCalls
		switch {
		case ends < 3:
			return false
		case c.Method == "Finish":
			return differ(c, "finish", "finish")
		}
		return c.Log[at].Type == chunk.TypeStreamEnd && differ(c, frames, "") || c.Log[at].Type == chunk.TypeStreamFailed && differ(c, "", frames)
	},
}, {
	Name: "finish reason of an end that is not written", Dialect: turnequal.AISDK,
	Reason: "Meta.FinishReason is that of the last chunk that was written, also if the turn has ended since",
	Common: func(c *turnequal.Case, at int, frames []byte) []byte {
		if !endsTwice(c, at) {
			return frames
		}
		return finishReason.ReplaceAll(frames, nil)
	},
}, {
	Name: "hidden structured data", Dialect: turnequal.AISDK,
	Reason: "a hidden record of structured data counts for what follows, as in the snapshot",
	Accepts: func(c *turnequal.Case, at int) bool {
		for i := range at {
			if c.Hidden[i] && isStructured(&c.Log[i]) {
				return differsInData(c, at)
			}
		}
		return false
	},
}, {
	Name: "second pause", Dialect: turnequal.AISDK,
	Reason: "a run that waits for its sub-agents, and then pauses again for the client, ends the response: the client has to answer",
	Accepts: func(c *turnequal.Case, at int) bool {
		pauses := 0
		for _, i := range handled(c, at+1, false) {
			switch rec := &c.Log[i]; {
			case rec.Session != c.Log[0].Session:
			case rec.Type == chunk.TypeStreamPaused:
				pauses++
			case rec.Type == chunk.TypeRunStarted || rec.Type == chunk.TypeStreamActive:
				if pauses = min(pauses, 1); !removes(c) {
					pauses = 0
				}
			}
		}
		return pauses > 1 && (c.Log[at].Type == chunk.TypeStreamPaused || differ(c, "*", "")) // in a history
	},
}, {
	Name: "arguments that stream while a sub-agent continues", Dialect: turnequal.AISDK,
	Reason: "the run of a sub-agent, which continues a run that waits for it, ends no arguments that stream in the open response, as in the other dialects",
	Accepts: func(c *turnequal.Case, at int) bool {
		paused, continued := false, false
		for _, i := range handled(c, at+1, false) {
			switch rec := &c.Log[i]; {
			case rec.Session == c.Log[0].Session:
				paused = rec.Type == chunk.TypeStreamPaused || paused && rec.Type != chunk.TypeRunStarted && rec.Type != chunk.TypeStreamActive
			case rec.Type == chunk.TypeRunStarted:
				continued = continued || paused
			}
		}
		return continued && differ(c, "", "tool-input-start tool-input-delta")
	},
}, {
	Name: "structured data before removed records", Dialect: turnequal.AISDK,
	Reason: "after a removal of structured data the streams are those before the step, as in the snapshot, and not lost",
	Accepts: func(c *turnequal.Case, at int) bool {
		return differsInData(c, at) && anyBefore(c, at, func(rec *chunk.Record) bool { return rec.Type == chunk.TypeTruncated })
	},
}, {
	Name: "members of the part of a call whose outcome was removed", Dialect: turnequal.AISDK,
	Reason: "a call that has its outcome keeps no members of its part: the record that begins it again has them",
	Accepts: func(c *turnequal.Case, at int) bool {
		return outcomeRemoved(c, at) && differ(c, framesOfCalls, framesOfCalls) && anyBefore(c, at, func(rec *chunk.Record) bool {
			_, _, begins := begunBy(rec)
			return begins && bytes.Contains(rec.Data, []byte(`"part"`))
		})
	},
}, {
	Name: "number of a repeated id after a removal", Dialect: turnequal.AISDK,
	Reason: "the numbers behind the id of a call rise as long as one with a number is left, so that a later call has the higher one",
	Accepts: func(c *turnequal.Case, at int) bool {
		ended, twice, removed := map[string]bool{}, map[string]bool{}, false
		return differ(c, framesOfCalls, framesOfCalls) && anyBefore(c, at, func(rec *chunk.Record) bool {
			if rec.Type == chunk.TypeTruncated {
				removed = true
			}
			if id, ok := endedBy(rec); ok {
				twice[id] = twice[id] || ended[id]
				ended[id] = true
			}
			id, _, ok := begunBy(rec)
			return ok && removed && twice[id]
		})
	},
}, {
	Name: "record that was hidden before", Dialect: turnequal.AISDK,
	Reason: "a hidden record of a sub-agent counts for what is repeated or fenced, and so does the first record of the turn",
	Accepts: func(c *turnequal.Case, at int) bool {
		hidden, first := map[chunk.Session]chunk.Record{}, slices.Index(c.Hidden, false)
		for i, rec := range c.Log[:min(at+1, len(c.Log))] {
			switch last := hidden[rec.Session]; {
			case !c.Hidden[i] && (rec.Ordinal <= last.Ordinal || rec.Epoch < last.Epoch):
				return rec.Session == c.Log[at].Session
			case c.Hidden[i] && (rec.Session != c.Log[0].Session || i < first) && rec.Ordinal > last.Ordinal && rec.Epoch >= last.Epoch:
				hidden[rec.Session] = rec
			}
		}
		return false
	},
}, {
	Name: "order of inputs that stream", Dialect: turnequal.AISDK,
	Reason: "a new response begins the inputs that stream in the order in which their calls began",
	Common: func(c *turnequal.Case, _ int, frames []byte) []byte {
		if c.Method != "Resume" {
			return frames
		}
		all := bytes.SplitAfter(frames, []byte("\n\n"))
		if first := slices.IndexFunc(all, isInputStart); first >= 0 { // nothing follows them
			slices.SortFunc(all[first:], bytes.Compare)
		}
		return bytes.Join(all, nil)
	},
}}

// What the metadata and the inputs of a message have.
var (
	session      = regexp.MustCompile(`Session:[^ ]*`)
	started      = regexp.MustCompile(`StartedAt:[^+]*\+[0-9]+ [A-Z]+`)
	latest       = regexp.MustCompile(`LastAt:[^+]*\+[0-9]+ [A-Z]+`)
	finishReason = regexp.MustCompile(`FinishReason:[a-z-]*`)
	tokens       = regexp.MustCompile(`Tokens:[0-9]+`)
	toolName     = regexp.MustCompile(`"toolName":"[^"]*"`)
)

func isInputStart(frame []byte) bool {
	return bytes.HasPrefix(frame, []byte(`data: {"type":"tool-input-start"`))
}

// Types of frames.
const (
	endsOfTexts   = "text-end reasoning-end"
	framesOfCalls = "tool-input-start tool-input-available tool-input-error tool-approval-request tool-approval-response tool-output-available tool-output-error tool-output-denied"
)

// differsInData reports whether structured data at a place, and nothing else, has other frames.
func differsInData(c *turnequal.Case, at int) bool {
	const frames = "data-structured data-structured-data data-structured-data-invalidated start-step finish-step"
	return isStructured(&c.Log[at]) && differ(c, frames, frames)
}

// differ reports whether the frames that one writer alone has are of these types, "*" for any.
func differ(c *turnequal.Case, old, now string) bool {
	has := func(frames, others []byte, types string) bool {
		for frame := range bytes.SplitSeq(frames, []byte("\n\n")) {
			frame = frame[max(0, bytes.Index(frame, []byte("data: "))):]
			kind, _, _ := bytes.Cut(bytes.TrimPrefix(frame, []byte(`data: {"type":"`)), []byte(`"`))
			if types != "*" && !bytes.Contains(others, frame) && !slices.Contains(strings.Fields(types), strings.Trim(strings.TrimPrefix(string(kind), "data: "), "[]")) {
				return false
			}
		}
		return true
	}
	return has(c.Old, c.New, old) && has(c.New, c.Old, now)
}

// endedBy returns the call whose outcome a record has.
func endedBy(rec *chunk.Record) (id string, ok bool) {
	c, err := rec.Decode()
	if err != nil {
		return "", false
	}
	switch b := c.Body.(type) {
	case chunk.ToolEnd:
		return b.ToolCallID, true
	case chunk.ToolOutputError:
		return b.ToolCallID, true
	case chunk.ToolInputError:
		return b.ToolCallID, true
	case chunk.ToolApprovalResponse:
		return b.ToolCallID, !b.Approved
	}
	return "", false
}

// isStructured reports whether a record is structured data.
func isStructured(rec *chunk.Record) bool {
	b, ok := chunk.BodyOf[chunk.Custom](*rec)
	return ok && strings.HasPrefix(b.EventName, "structured-data")
}

// endsTwice reports whether the turn waits or has ended, and has another end before it is resumed. A history may be without the record that resumes it.
func endsTwice(c *turnequal.Case, at int) bool {
	ends := 0
	return slices.ContainsFunc(handled(c, at+1, false), func(i int) bool {
		switch rec := &c.Log[i]; rec.Type {
		case chunk.TypeStreamPaused, chunk.TypeStreamEnd, chunk.TypeStreamFailed, chunk.TypeRunInterrupted, chunk.TypeError:
			if rec.Session != c.Log[0].Session {
				return false
			}
			ends++
			return isOver(c, i) || ends > 1 && removes(c)
		}
		return false
	})
}

// begunBy returns the call that a record begins, or would if it had not begun before.
func begunBy(rec *chunk.Record) (id, tool string, ok bool) {
	c, err := rec.Decode()
	if err != nil {
		return "", "", false
	}
	switch b := c.Body.(type) {
	case chunk.ToolArgStreamStart:
		return b.ToolCallID, b.ToolName, true
	case chunk.ToolStart:
		return b.ToolCallID, b.ToolName, true
	case chunk.ToolApprovalRequest:
		return b.ToolCallID, b.ToolName, true
	}
	return "", "", false
}

// removes reports whether records of the log are removed. A history leaves them out, also the records of runs.
func removes(c *turnequal.Case) bool {
	return anyBefore(c, len(c.Log), func(rec *chunk.Record) bool { return rec.Type == chunk.TypeTruncated })
}

// anyBefore reports whether a record up to at is of a form.
func anyBefore(c *turnequal.Case, at int, is func(*chunk.Record) bool) bool {
	for i := range c.Log[:min(at+1, len(c.Log))] {
		if is(&c.Log[i]) {
			return true
		}
	}
	return false
}
